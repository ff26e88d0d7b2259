#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "quant/job/plan/job_reporter.h"
#include "quant/job/plan/plan.h"
#include "quant/job/statistics/calibration.h"

namespace nibble::quant {

/// Weights that are given the same input, straight from a norm: q, k, v; gate and up; GPT-2's c_attn and c_fc.
struct InputGroup {
  std::string norm;                ///< module name: "model.layers.0.input_layernorm"
  std::vector<std::size_t> items;  ///< of Plan::items
};

/// Exponents that scale_inputs() tries.
constexpr std::size_t kInputScalingSteps = 20;

/// Whether the input of a weight can be scaled at all: it comes straight from a norm.
bool is_fed_by_norm(const QuantizeItem& item);

/// The groups for which the recipe says `input_scaling: awq`. Weights whose input does not come from a norm get
/// `input_scaling: none` in `plan`. Throws InvalidArgument when a rule names awq for such a weight, or for some of a
/// group only: the norm's output is shared.
std::vector<InputGroup> input_groups(Plan& plan, const Recipe& recipe);

/// Refuses a group for which calibration lacks mean magnitudes or the Hessian: InvalidArgument as
/// Calibration::require().
void require_for(const InputGroup& group, const Plan& plan, const Calibration& calibration);

/// What a group's norm takes more when scale_inputs() finds scales, which divide it: then it is stored as float32.
std::uint64_t bits_of_wider_norm(const InputGroup& group, const Plan& plan);

/// Where scale_inputs() keeps what it found.
std::filesystem::path input_scales_file(const InputGroup& group, const std::filesystem::path& scratch);

/// Scales the inputs of a group (AWQ, arXiv:2306.00978): with a_j = E|x_j| and for r in {0, 1/20, …, 19/20}
///
///   s = max(a^r, 1e-4) / sqrt(max s · min s)    (1 where a_j = 0),    What = Q(W diag(s)) diag(1/s),
///
/// and takes the r of least Σ tr(Δ H Δᵀ), Δ = W - What, over the weights of the group: the mean square error of the
/// layers' outputs over the calibration text, exactly, without running it again (H as the recipe's `hessian` says,
/// centred where the bias is shifted). Q is rounding to nearest; with another solver, its r is kept only if the solver
/// itself does better with it than with none.
///
/// In `plan` the weights become W diag(s), and the norm's weight (and bias) are divided by s, in float32, whose
/// further bits count as stored for the group's first weight; with r = 0 all stays as it was. In exact arithmetic the
/// model computes the same. Found again in `scratch` if a killed run had finished it.
/// Cost: 20 times quantizing the group. Memory: as make_shards().
InputScalingResult scale_inputs(const InputGroup& group, Plan& plan, const Calibration& calibration,
                                const std::filesystem::path& scratch, std::uint64_t memory_bytes);

}  // namespace nibble::quant
