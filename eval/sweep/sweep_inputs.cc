#include "eval/sweep/sweep_inputs.h"

#include <algorithm>
#include <limits>

#include "calib/collect/plan.h"
#include "calib/collect/token_metric.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "datasets/text_source.h"
#include "datasets/token_file.h"
#include "eval/quality/text_quality.h"
#include "model/open/open_model.h"
#include "quant/job/statistics/calibration_source.h"

namespace nibble::eval {

std::shared_ptr<const EvaluationTokens> read_tokens(const SweepEvaluation& evaluation, const PlannedModel& model) {
  const std::size_t limit =  // of each file
      evaluation.max_tokens > 0 ? evaluation.max_tokens : std::numeric_limits<std::size_t>::max();
  auto read = std::make_shared<EvaluationTokens>();
  read->tokenizer = model::open_tokenizer_if_any(model.source.path);
  NIBBLE_REQUIRE(evaluation.text.empty() || read->tokenizer != nullptr, FormatError,
                 "evaluation '{}': model '{}' has no tokenizer; give token ids with `tokens`", evaluation.name,
                 model.source.path.string());
  const auto& files = evaluation.text.empty() ? evaluation.tokens : evaluation.text;
  for (const std::filesystem::path& file : files) {
    std::vector<TokenId> ids = evaluation.text.empty()
                                   ? datasets::read_token_file(file, model.architecture.vocabulary, limit)
                                   : read->tokenizer->encode(datasets::read_evaluation_text(file, evaluation.hf_join));
    ids.resize(std::min(limit, ids.size()));
    read->tokens.insert(read->tokens.end(), ids.begin(), ids.end());
    if (files.size() > 1) read->text_ends.push_back(read->tokens.size());
  }
  read->hash = hash_hex(std::as_bytes(std::span(read->tokens)));
  return read;
}

PerplexityOptions perplexity_options(const SweepEvaluation& evaluation, const PlannedModel& model,
                                     const std::shared_ptr<const EvaluationTokens>& tokens) {
  const bool sliding = evaluation.protocol == datasets::Protocol::kSliding;
  PerplexityOptions options;
  options.protocol = evaluation.protocol;
  options.context = evaluation.context > 0 ? evaluation.context : model.architecture.max_positions;
  options.stride = evaluation.stride > 0 ? evaluation.stride : sliding ? options.context / 2 : options.context;
  options.text_ends = tokens->text_ends;
  options.average = evaluation.protocol == datasets::Protocol::kHalf ? Average::kTokens : evaluation.average;
  try {
    options.bos = window_bos(evaluation.protocol, evaluation.bos, tokens->tokenizer.get());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(
        fmt::format("evaluation '{}' of '{}': {}", evaluation.name, model.source.path.string(), error.what()));
  }
  if (tokens->tokenizer != nullptr)
    options.byte_length = [tokens](TokenId id) { return tokens->tokenizer->byte_length_if_known(id); };
  return options;
}

std::size_t windows_behind(const quant::Recipe& recipe, std::size_t samples) {
  const auto& tuning = recipe.tuning();
  return tuning ? std::max<std::size_t>(tuning->windows, samples) - samples + tuning->held_out : 0;
}

PlannedCalibration read_calibration(const SweepCalibration& calibration, const CalibrationDraw& draw,
                                    const PlannedModel& model, const calib::StatisticSet& what,
                                    std::span<const SweepRecipe> recipes) {
  PlannedCalibration planned;
  quant::CalibrationSource source{.text = calibration.text,
                                  .tokens = calibration.tokens,
                                  .field = calibration.field,
                                  .length = calibration.length,
                                  .seed = draw.seed,
                                  .bos = calibration.bos};
  const auto tokenizer = source.needs_tokenizer() ? model::open_tokenizer_if_any(model.source.path) : nullptr;
  const auto windows_of = [&](std::size_t samples) {
    source.samples = samples;
    try {
      return quant::read_calibration_windows(source, model.architecture, tokenizer.get(), model.source.path, {});
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("calibration of '{}': {}", model.source.path.string(), error.what()));
    }
  };
  const bool all_of_a_file = calibration.text.empty() && draw.samples == 0;
  planned.windows = windows_of(draw.samples);
  const std::size_t samples = planned.windows.samples;
  std::size_t further = 0;
  for (const SweepRecipe& recipe : recipes)
    if (recipe.recipe) further = std::max(further, windows_behind(*recipe.recipe, samples));
  NIBBLE_REQUIRE(
      !all_of_a_file || further == 0, InvalidArgument,
      "calibration: tuning's `windows` and `held_out` take {} windows behind the {} of '{}', which are all of "
      "it; say with `samples` how many are the calibration's",
      further, samples, calibration.tokens.string());
  if (further > 0) {  // fewer windows are the first of more
    const std::vector<TokenId> more = windows_of(samples + further).tokens;
    planned.further.assign(more.begin() + static_cast<std::ptrdiff_t>(planned.windows.tokens.size()), more.end());
  }
  planned.settings = {.model_hash = model.checkpoint->fingerprint(),
                      .tokenizer_hash = calibration.text.empty() ? "none" : tokenizer->fingerprint(),
                      .text_hash = planned.windows.fingerprint,
                      .windows_hash = hash_hex(std::as_bytes(std::span(planned.windows.tokens))),
                      .sampling = source.sampling(),
                      .windows = planned.windows.samples,
                      .window_tokens = planned.windows.length,
                      .seeds = {draw.seed},
                      .flavour = calibration.flavour,
                      .labels = calibration.labels,
                      .collected = what};
  planned.centre_own = calibration.centre_own;
  return planned;
}

bool is_part_of(const PlannedCalibration& part, const PlannedCalibration& whole, const PlannedModel& model) {
  const std::vector<TokenId>&first = part.windows.tokens, &all = whole.windows.tokens;
  return part.model == whole.model && !part.centre_own && !whole.centre_own && first.size() < all.size() &&
         part.settings.seeds == whole.settings.seeds &&
         calib::differences_for_merging(part.settings, whole.settings).empty() &&
         (part.settings.guide == calib::Guide::kPlain || part.settings.windows >= calib::kGuideWindows) &&
         part.settings.windows % calib::windows_per_batch(model.architecture, part.settings.window_tokens) == 0 &&
         std::equal(first.begin(), first.end(), all.begin());
}

}  // namespace nibble::eval
