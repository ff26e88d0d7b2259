#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "quant/job/network/input_scaling.h"
#include "quant/job/plan/job_reporter.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/calibration_text.h"

namespace nibble::quant {

/// What quantize_sequentially() works on; all must outlive the call.
struct SequentialJob {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  const model::Architecture& architecture;
  const CalibrationText& text;
  std::uint64_t memory_bytes;
  const Calibration& calibration;  ///< for what a forward pass does not tell: Fisher sensitivities
  std::vector<InputGroup> groups;  ///< whose inputs are scaled
  std::filesystem::path scratch;
  std::string identity;  ///< of the job: marks files in `scratch`
  JobReporter& reporter;
};

/// The statistics that walks of one job take: throws InvalidArgument for tokens that the model does not have, windows
/// that are too long, or too little memory for one block.
void check_text(const model::Architecture& architecture, const CalibrationText& text, std::uint64_t memory_bytes);

/// Quantizes a model in the order in which data flows through it, every layer by the statistics (mean inputs, Hessian)
/// of the inputs it gets from the layers before it as they are by then: quantized (GPTQ's "true sequential").
///
///   embeddings; then in each block  q k v (one input) -> attention's output -> gate, up (c_fc) -> down (c_proj)
///   or, where one norm feeds attention and MLP,  q k v gate up -> attention's output -> down
///
/// Each of these steps runs the windows through the block as it is, as far as to their input, quantizes its layers
/// and puts them in place; a last run carries the windows to the next block. All experts of a mixture take a step
/// together. Layers without `sequential` use calibration files, at their turn.
///
/// Shifted biases become b + mu Wᵀ - mu~ Whatᵀ, mu being the mean input in the float model (carried along on the same
/// windows) and mu~ that of the model quantized so far: errors that have accumulated in the mean go too.
///
/// With `drift_correction`, codes are solved for a weight that makes up for what the layers before it got wrong
/// (layer_drift.h) instead of the checkpoint's; their errors are told against that weight. Not of experts. Where a bias
/// takes up the means, the drift is that about them. Output Hessians are those of calibration files; guided ones too,
/// carried along with measured drift where `guided_inputs` says so (map_inputs.h).
///
/// Result    shards in the order of plan.items; `plan` gets scaled inputs, described in `scaling`; experts that too few
///           tokens chose are quantized without statistics and named in `rare`.
/// Resuming  what is finished is taken from `scratch`, and `rare` with it; the bytes are those of an undisturbed run.
/// Cost      about 2.5 forward passes of the text, 3.5 with shifting, 5 with drift_correction (6 with both where some
///           layers have only shifting: experts), and the products of DriftSums: of each block the last run, and what
///           lies before attention's output, gate and down; more where the sums of a mixture's experts need more than
///           an eighth of memory_bytes and are collected in turns. Memory: one batch, the Hessian of one input (of a
///           step's experts) with DriftSums::bytes() twice (or once with map_bytes()) and its factor, or its solver,
///           and the residual stream at one boundary (2 with shifting or drift_correction), in files where memory_bytes
///           are too few.
std::vector<Shard> quantize_sequentially(const SequentialJob& job, Plan& plan, std::vector<InputScalingResult>& scaling,
                                         std::vector<RareExpert>& rare);

}  // namespace nibble::quant
