#include "quant/job/plan/result.h"

#include <fmt/ranges.h>

namespace nibble::quant {

TensorResult tensor_result(const std::string& name, Format format, std::uint64_t weights, std::uint64_t stored_bits,
                           const WeightParts& made) {
  TensorResult result{{.name = name,
                       .format = std::string(storage_format(format).name),
                       .weights = weights,
                       .stored_bits = stored_bits,
                       .bits_per_weight = static_cast<double>(stored_bits) / static_cast<double>(weights),
                       .relative_weight_error = made.relative_error,
                       .optimality_gap = made.optimality_gap,
                       .output_error = made.output_error,
                       .fisher_error = made.fisher_error}};
  if (made.solver) {
    result.damping = made.solver->damping;
    result.silent_inputs = made.solver->silent_inputs;
  }
  return result;
}

std::vector<std::string> warnings(const QuantizeResult& result, const std::filesystem::path& model) {
  std::vector<std::string> sentences;
  for (const RareExpert& expert : result.rare_experts)
    sentences.push_back(
        fmt::format("{}: {} tokens of the calibration chose this expert of {} inputs: quantized without statistics",
                    expert.name, expert.tokens, expert.inputs));
  if (!result.unused_rules.empty())
    sentences.push_back(fmt::format("rules that apply to no tensor of '{}': '{}'", model.string(),
                                    fmt::join(result.unused_rules, "', '")));
  if (result.sequential_in_vain)
    sentences.push_back(
        "sequential: no layer that says true takes the statistics that are recomputed, so it changes no weight and "
        "only tells errors behind quantized layers: expected a solver, shifting, input_scaling, search: hessian or a "
        "weighting by inputs; say sequential: false");
  // What is repeated is noise that is taken for drift: by a quarter of it at most.
  constexpr double kDriftRepeatedALot = 0.25;
  if (result.drift_repeated > kDriftRepeatedALot)
    sentences.push_back(fmt::format(
        "drift_correction: {:.0f} % of the tokens of every other window stand in the windows between too, so noise may "
        "pass for drift: take a text of more or longer documents, or fewer windows of this one",
        100 * result.drift_repeated));
  constexpr double kRepeatedALot = 0.05;
  if (result.tuning && result.tuning->repeated > kRepeatedALot)
    sentences.push_back(fmt::format(
        "tuning: {:.0f} % of the tokens held out stand in windows that were trained on too, so their loss falls "
        "more than that of a new text: take a text of more or longer documents",
        100 * result.tuning->repeated));
  return sentences;
}

}  // namespace nibble::quant
