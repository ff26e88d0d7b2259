#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quant/job/plan/budget_result.h"
#include "quant/recipe/settings.h"
#include "quant/store/tensor_figures.h"
#include "quant/tensor/weight_parts.h"

namespace nibble::quant {

/// What happened to one tensor.
struct TensorResult : TensorFigures {
  /// Solvers: what was added to the Hessian's diagonal, as a share of it: more than the recipe's `damping` where
  /// that did not make it positive definite; and the inputs that were always 0, or constant (centred Hessians).
  std::optional<double> damping = {};
  std::optional<std::uint64_t> silent_inputs = {};
  std::optional<double> predicted_loss = {};  ///< with a budget: estimated increase of the loss, nats per token
  double seconds = 0.0;                       ///< that it took, in whichever run
  bool resumed = false;                       ///< an earlier run, which was killed, had finished it
};

/// The figures of one weight; bits per weight follow.
TensorResult tensor_result(const std::string& name, Format format, std::uint64_t weights, std::uint64_t stored_bits,
                           const WeightParts& made);

/// What `input_scaling: awq` did behind one norm.
struct InputScalingResult {
  std::string norm;
  double exponent = 0.0;                       ///< r: the scales are E|x|^r, but for a factor; 0 = none
  double least_scale = 1.0, most_scale = 1.0;  ///< of the inputs
  double output_error_before = 0.0,
         output_error_after = 0.0;  ///< TensorResult::output_error of the group, with r = 0 and r
};

/// What tuning did. Losses are means over positions, in nats.
struct TuningResult {
  std::vector<double> held_out;  ///< loss of the windows that are not trained on: before, and after each epoch
  std::vector<double> trained;   ///< mean loss of the steps of each epoch
  std::size_t best_epoch = 0;    ///< whose state was kept; 0 = as it was before
  double repeated = 0.0;         ///< share of the held-out tokens that trained windows have too: repeated_share()
};

/// An expert that was quantized without statistics, because the calibration's text chose it too seldom.
struct RareExpert {
  std::string name;
  std::uint64_t tokens = 0, inputs = 0;
};

struct QuantizeResult {
  std::vector<TensorResult> tensors;   ///< what the recipe names: linears of the blocks, then embeddings and head
  double bits_per_weight = 0.0;        ///< over the linears of the blocks, all-in
  double model_bits_per_weight = 0.0;  ///< tensor bytes * 8 of the written file over all parameters
  std::uint64_t parameters = 0;
  std::uint64_t tensor_bytes = 0;
  std::uint64_t file_bytes = 0;                   ///< of model.safetensors
  std::vector<std::string> unused_rules;          ///< patterns of the recipe that apply to no tensor
  std::vector<InputScalingResult> input_scaling;  ///< by norm
  std::vector<RareExpert> rare_experts;           ///< quantized without statistics
  bool sequential_in_vain = false;                ///< no weight took what `sequential` recomputed
  double drift_repeated = 0.0;                    ///< share of one half of drift's text that the other half has too
  std::optional<TuningResult> tuning;             ///< where the recipe has one
  std::optional<BudgetResult> budget;             ///< the table of choices, where the recipe has a budget
};

/// What whoever ran the recipe on `model` should hear of its result, a sentence each: experts without statistics, rules
/// that apply to nothing, `sequential` in vain, a text for drift or tuning that repeats itself.
std::vector<std::string> warnings(const QuantizeResult& result, const std::filesystem::path& model);

/// Hears of every weight as it is finished: one call at a time, on whichever thread finished it, and others wait.
using TensorSink = std::function<void(const TensorResult&)>;

}  // namespace nibble::quant
