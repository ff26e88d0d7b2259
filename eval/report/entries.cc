#include "eval/report/entries.h"

#include <fmt/format.h>

#include <iterator>

#include "core/text/json.h"

namespace nibble::eval {
namespace {

using Json = nlohmann::json;

Json recipe_of(const SweepRecord& record) { return Json::parse(fact(record.configuration, "recipe"), nullptr, false); }

}  // namespace

std::string Entry::comparable_key() const {
  return fmt::format("{}\n{}", fact(record.configuration, "model"), scored_text(record));
}

std::string Entry::rest_of_recipe() const {
  Json recipe = recipe_of(record);
  if (!recipe.is_object()) return {};
  Json& listed = recipe.contains("defaults") ? recipe["defaults"] : recipe;
  if (listed.is_object())
    for (auto value = listed.begin(); value != listed.end();)
      value = value->is_structured() ? std::next(value) : listed.erase(value);
  return recipe.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool Entry::is_given_checkpoint() const {
  const Json recipe = recipe_of(record);
  return recipe.is_object() && recipe.contains("checkpoint");
}

}  // namespace nibble::eval
