#include "eval/sweep/given_checkpoint.h"

#include <algorithm>

#include "core/error.h"
#include "model/open/open_model.h"
#include "model/tokenizer/agreement.h"

namespace nibble::eval {
namespace {

constexpr std::string_view kModel = "{model}";

}  // namespace

std::filesystem::path checkpoint_for(const std::filesystem::path& path, std::string_view model) {
  std::string text = path.string();
  for (std::size_t at = text.find(kModel); at != std::string::npos; at = text.find(kModel, at + model.size()))
    text.replace(at, kModel.size(), model);
  return text;
}

std::string fingerprint_of_form(const std::filesystem::path& path, const PlannedModel& model) {
  const auto checkpoint = model::open_checkpoint(path);
  const model::Architecture& found = checkpoint->architecture();
  const auto layers = model::linear_layers(found), expected = model::linear_layers(model.architecture);
  const bool alike = std::equal(layers.begin(), layers.end(), expected.begin(), expected.end(),
                                [](const model::Parameter* x, const model::Parameter* y) {
                                  return x->module == y->module && x->out == y->out && x->in == y->in;
                                });
  NIBBLE_REQUIRE(alike && found.vocabulary == model.architecture.vocabulary, InvalidArgument,
                 "sweep: checkpoint '{}' is no form of model '{}': it has {} linear layers, a width of {} and a "
                 "vocabulary of {}, the model {}, {} and {}; several models have one each: write {{model}} for the "
                 "model's name in the path, or leave cells out with `exclude`",
                 path.string(), model.source.name, layers.size(), found.hidden, found.vocabulary, expected.size(),
                 model.architecture.hidden, model.architecture.vocabulary);
  return checkpoint->fingerprint();
}

void require_same_tokens(const std::filesystem::path& checkpoint, const EvaluationTokens& evaluation) {
  if (!evaluation.tokenizer) return;
  const auto tokenizer = model::open_tokenizer_if_any(checkpoint);
  NIBBLE_REQUIRE(!tokenizer || model::agree_on(evaluation.tokens, *tokenizer, *evaluation.tokenizer), InvalidArgument,
                 "sweep: checkpoint '{}' has another tokenizer than the model", checkpoint.string());
}

}  // namespace nibble::eval
