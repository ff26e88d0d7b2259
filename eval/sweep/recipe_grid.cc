#include "eval/sweep/recipe_grid.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/text/json.h"
#include "eval/sweep/yaml_section.h"
#include "quant/recipe/recipe_keys.h"

namespace nibble::eval {
namespace {

constexpr std::string_view kFloat = "float";
constexpr std::string_view kCheckpoint = "checkpoint";

/// A setting of a cell, and where it stands.
struct Setting {
  std::string key, value;
  const YamlNode* at = nullptr;
};
using Settings = std::vector<Setting>;

bool is_start(const Setting& setting) { return setting.key == "preset" || setting.key == "recipe"; }

// Keys of a cell that are not those of the recipe's `defaults`, and `others`.
std::vector<std::string_view> with_sections(std::vector<std::string_view> others) {
  others.insert(others.end(), {"preset", "recipe"});
  const auto sections = quant::Recipe::section_keys();
  others.insert(others.end(), sections.begin(), sections.end());
  return others;
}

// Refuses keys that are neither the recipe's nor one of `others`.
void check_keys(const YamlNode& node, std::string_view what, std::string_view section,
                std::vector<std::string_view> others) {
  for (const quant::RecipeKey& key : quant::recipe_keys()) others.push_back(key.name);
  const YamlSection checked(node, what, section, others);
}

// A value of one cell; a list, where the recipe's own value is one, as `--set` takes it.
std::string text_of(const std::string& key, const YamlNode& value, std::string_view what, std::string_view section) {
  const std::string place = fmt::format("{}: {}", section, key);
  if (value.kind != YamlNode::Kind::kSequence || !quant::Recipe::takes_list(key))
    return scalar_text(what, value, place);
  return fmt::format("{}", fmt::join(scalar_texts(what, value, place), ","));
}

Settings settings_of(const YamlNode& node, std::string_view what, std::string_view section) {
  Settings settings;
  for (const auto& [key, value] : node.entries)
    if (key != "name") settings.push_back({key, text_of(key, value, what, section), &value});
  return settings;
}

// Of one map: neither would be heard. (A cell's own goes before that of `defaults`.)
void require_one_start(const YamlNode& node, std::string_view what, std::string_view section) {
  const auto names = [&](std::string_view wanted) {
    return std::any_of(node.entries.begin(), node.entries.end(), [&](const YamlEntry& e) { return e.key == wanted; });
  };
  if (names("preset") && names("recipe"))
    fail_at(what, node, fmt::format("{}: preset and recipe both name a whole recipe: give one of them", section));
}

// Later settings win. The start is `preset` or `recipe`, else the recipe of `nibble quantize`.
quant::Recipe make_recipe(const Settings& settings, std::string_view what) {
  quant::Recipe recipe;
  const YamlNode* at = nullptr;
  try {
    const auto start = std::find_if(settings.rbegin(), settings.rend(), is_start);
    if (start != settings.rend()) {
      at = start->at;
      recipe = start->key == "preset" ? quant::Recipe::preset(start->value) : quant::Recipe::load(start->value);
    }
    for (const Setting& setting : settings) {
      if (is_start(setting)) continue;
      at = setting.at;
      recipe.apply_set(setting.key, setting.value);
    }
    recipe.validate();
  } catch (const Error& error) {
    std::vector<std::string> texts;
    for (const Setting& setting : settings) texts.push_back(setting.key + "=" + setting.value);
    throw InvalidArgument(fmt::format("{}, line {}: cell {}: {}; correct it, or leave it out with `exclude`", what,
                                      at != nullptr ? at->line : 0, fmt::join(texts, " "), error.what()));
  }
  return recipe;
}

std::string name_of(const Settings& settings) {
  std::vector<std::string> words;
  for (const Setting& setting : settings)
    words.push_back(is_start(setting) ? setting.value : setting.key + "=" + setting.value);
  return words.empty() ? "defaults" : fmt::format("{}", fmt::join(words, " "));
}

bool is_excluded(const Settings& settings, std::span<const Exclusion> exclusions) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const Setting& setting : settings) given.emplace_back(setting.key, setting.value);
  return std::any_of(exclusions.begin(), exclusions.end(),
                     [&](const Exclusion& exclusion) { return exclusion.covers_given(given); });
}

void add_grid(const YamlNode& grid, const Settings& defaults, std::span<const Exclusion> exclusions,
              std::string_view what, ExpandedRecipes& expanded) {
  check_keys(grid, what, "grid", with_sections({}));
  require_one_start(grid, what, "grid");
  std::vector<std::vector<std::string>> values;
  std::size_t cells = 1;
  for (const auto& [key, value] : grid.entries) {
    values.push_back(scalar_texts(what, value, "grid: " + key));
    cells *= values.back().size();
    if (cells > kMaxCells) fail_at(what, grid, fmt::format("grid: more than {} cells", kMaxCells));
  }
  for (std::size_t cell = 0; cell < cells; ++cell) {
    Settings all = defaults, named;
    std::size_t rest = cell, below = cells;
    for (std::size_t axis = 0; axis < values.size(); ++axis) {  // the last axis runs fastest
      below /= values[axis].size();
      const auto& [key, node] = grid.entries[axis];
      const Setting setting{key, values[axis][rest / below], &node};
      rest %= below;
      all.push_back(setting);
      if (values[axis].size() > 1) named.push_back(setting);
    }
    if (is_excluded(all, exclusions)) {
      expanded.left_out.push_back(name_of(named));
    } else {
      expanded.recipes.push_back({.name = name_of(named), .recipe = make_recipe(all, what), .checkpoint = {}});
    }
  }
}

// Braces that stand for nothing are a mistyped "{model}", and would end as a file that is not there.
std::string checkpoint_path(const YamlNode& value, std::string_view what) {
  std::string path = scalar_text(what, value, "list: checkpoint");
  if (path.empty()) fail_at(what, value, "list: checkpoint: expected a path");
  const std::string literal = checkpoint_for(path, "").string();
  if (literal.find_first_of("{}") != std::string::npos)
    fail_at(what, value,
            fmt::format("list: checkpoint: expected a path without braces but for {{model}}, got '{}'", path));
  return path;
}

// One that is there already has nothing to be set.
void add_checkpoint(const YamlNode& item, std::string_view what, std::vector<SweepRecipe>& recipes) {
  SweepRecipe made;
  for (const auto& [key, value] : item.entries) {
    if (key == "name") {
      made.name = scalar_text(what, value, "list: name");
      made.is_named = true;
    } else if (key == kCheckpoint) {
      made.checkpoint = checkpoint_path(value, what);
    } else {
      fail_at(what, value, fmt::format("list: {} has no meaning beside checkpoint, which is quantized already", key));
    }
  }
  if (made.name.empty()) made.name = made.checkpoint.string();
  recipes.push_back(std::move(made));
}

void add_listed(const YamlNode& item, const Settings& defaults, std::string_view what,
                std::vector<SweepRecipe>& recipes) {
  if (item.kind == YamlNode::Kind::kScalar) {
    if (item.text != kFloat)
      fail_at(what, item, fmt::format("list: expected settings, or the word '{}', got '{}'", kFloat, item.text));
    recipes.push_back({.name = std::string(kFloat), .recipe = std::nullopt, .checkpoint = {}});
    return;
  }
  const auto is_checkpoint = [](const YamlEntry& entry) { return entry.key == kCheckpoint; };
  check_keys(item, what, "list", with_sections({"name", kCheckpoint}));
  if (std::any_of(item.entries.begin(), item.entries.end(), is_checkpoint)) return add_checkpoint(item, what, recipes);
  require_one_start(item, what, "list");
  const Settings own = settings_of(item, what, "list");
  Settings all = std::any_of(own.begin(), own.end(), is_start) ? Settings{} : defaults;
  all.insert(all.end(), own.begin(), own.end());
  SweepRecipe made{.name = name_of(own), .recipe = make_recipe(all, what), .checkpoint = {}};
  for (const auto& [key, value] : item.entries) {
    if (key != "name") continue;
    made.name = scalar_text(what, value, "list: name");
    made.is_named = true;
  }
  recipes.push_back(std::move(made));
}

}  // namespace

std::filesystem::path checkpoint_for(const std::filesystem::path& path, std::string_view model) {
  constexpr std::string_view kModel = "{model}";
  std::string text = path.string();
  for (std::size_t at = text.find(kModel); at != std::string::npos; at = text.find(kModel, at + model.size()))
    text.replace(at, kModel.size(), model);
  return text;
}

ExpandedRecipes expand_recipes(const RecipeNodes& nodes, std::span<const Exclusion> exclusions, std::string_view what) {
  Settings defaults;
  if (nodes.defaults != nullptr) {
    check_keys(*nodes.defaults, what, "defaults", with_sections({}));
    require_one_start(*nodes.defaults, what, "defaults");
    defaults = settings_of(*nodes.defaults, what, "defaults");
  }
  ExpandedRecipes expanded;
  if (nodes.grid != nullptr) add_grid(*nodes.grid, defaults, exclusions, what, expanded);
  if (nodes.list != nullptr) {
    if (nodes.list->kind != YamlNode::Kind::kSequence) fail_at(what, *nodes.list, "list: expected a list of cells");
    for (const YamlNode& item : nodes.list->items) add_listed(item, defaults, what, expanded.recipes);
  }
  return expanded;
}

Exclusion::Exclusion(const YamlNode& node, std::string_view what) {
  check_keys(node, what, "exclude", {"recipe", "model", "evaluation"});
  for (const auto& [key, value] : node.entries) {
    std::vector<std::string> values = scalar_texts(what, value, "exclude: " + key);
    if (key != "recipe" && key != "model" && key != "evaluation") {
      for (std::string& text : values) {
        quant::TensorSettings settings;
        try {
          quant::find_recipe_key(key).assign(settings, text);
        } catch (const InvalidArgument& error) {
          fail_at(what, value, fmt::format("exclude: {}", error.what()));
        }
        text = quant::find_recipe_key(key).print(settings).dump();
      }
    }
    keys_.emplace_back(key, std::move(values));
  }
}

bool Exclusion::covers(const SweepModel& model, const SweepRecipe& recipe, const SweepEvaluation& evaluation) const {
  nlohmann::ordered_json defaults;
  if (recipe.recipe) defaults = recipe.recipe->canonical_json()["defaults"];
  return std::all_of(keys_.begin(), keys_.end(), [&](const auto& entry) {
    const auto& [key, values] = entry;
    const auto holds = [&allowed = values](const std::string& value) {
      return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    };
    if (key == "model") return holds(model.name);
    if (key == "evaluation") return holds(evaluation.name);
    if (key == "recipe") return holds(recipe.name);
    if (!recipe.recipe) return false;
    // What a recipe leaves out is at its default.
    return holds(defaults.contains(key) ? defaults[key].dump() : quant::find_recipe_key(key).print({}).dump());
  });
}

bool Exclusion::covers_given(const std::vector<std::pair<std::string, std::string>>& settings) const {
  return std::all_of(keys_.begin(), keys_.end(), [&](const auto& entry) {
    const auto& [key, values] = entry;
    const auto given = std::find_if(settings.rbegin(), settings.rend(), [&, name = key](const auto& setting) {
      return setting.first == name && name != "recipe";  // there a file, here a name
    });
    if (given == settings.rend()) return false;
    quant::TensorSettings parsed;
    try {
      quant::find_recipe_key(key).assign(parsed, given->second);
    } catch (const InvalidArgument&) {
      return false;  // reported when the recipe is made
    }
    const std::string value = quant::find_recipe_key(key).print(parsed).dump();
    return std::find(values.begin(), values.end(), value) != values.end();
  });
}

}  // namespace nibble::eval
