#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "quant/job/plan/job_reporter.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/calibration_text.h"

namespace nibble::quant {

/// What tune() works on; all must outlive the call.
struct TuningJob {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  const model::Architecture& architecture;
  const Plan& plan;
  const Tuning& tuning;
  const CalibrationText& text;
  std::uint64_t memory_bytes;
  const Calibration& calibration;  ///< to measure the tuned weights' errors, as far as it has statistics for them
  std::filesystem::path scratch;
  std::string identity;  ///< of the job: marks files in `scratch`
  JobReporter& reporter;
};

/// Tunes a quantized model as a whole: with all codes fixed unless `train` names them, palettes, scales and biases
/// follow the gradient of the mean loss of its logits on the text,
///
///   kl           KL(p ‖ q) of its next-token distribution q from the float model's p, at every position
///   next-token   −ln q(next token)
///
/// by Adam (adam.h) with a rate that falls to 0 along half a cosine. Every eighth window of `text`, which are the
/// recipe's `windows` and `held_out` by now, is held out, or as many at the text's end as `held_out` says: their loss
/// is measured before and after each epoch, and the best state is kept, so that tuning never makes it worse. With fewer
/// than eight windows, all are trained on and measured. All the while, weights and biases are what would be stored:
/// rounded. Palettes and scales of the blocks' linear layers are tuned, and the biases that shifting makes.
///
/// Result    `shards` (in the order of plan.items) with other values, errors measured anew, biases in bias_correction.
/// Resuming  a finished tuning is found in `scratch`; one that was killed starts again from `shards`.
/// Cost      an epoch: forward and backward pass of 7/8 of the text, with one product per layer for its gradient.
/// Memory    one batch's activations at every block's boundary, the largest layer's gradient, 24 bytes per free value,
///           and the float model's last hidden states of the text, in a file where half of memory_bytes do not hold
///           them.
/// Throws    NumericalError when activations are no longer finite: the rate is too high.
std::vector<Shard> tune(const TuningJob& job, const std::vector<Shard>& shards, TuningResult& result);

/// What tuning runs, in forward passes of a window: the float model over all of them, for `kl`; those held out before
/// and after each epoch; and of those trained on, all in every epoch, a step that goes back as well and makes G.
struct TuningWork {
  std::uint64_t taught = 0, measured = 0, trained = 0;
  std::uint64_t passes() const { return taught + measured + trained; }
};
/// Of a text of `windows`, of which tuning has those that the recipe says.
TuningWork tuning_work(const Tuning& tuning, std::size_t windows);

/// As it stands in quantization.json and is printed with --json.
nlohmann::ordered_json tuning_json(const TuningResult& result);

/// Refuses, before any work, a text that cannot be tuned on, and a recipe that has nothing of what `train` names.
/// Throws InvalidArgument.
void check_tuning(const Plan& plan, const model::Architecture& architecture, const Tuning& tuning,
                  const CalibrationText* text);

}  // namespace nibble::quant
