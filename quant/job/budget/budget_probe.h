#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "quant/job/plan/job_reporter.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"
#include "quant/job/statistics/calibration_text.h"

namespace nibble::quant {

/// What probes are measured on; all must outlive the call.
struct ProbeJob {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  const model::Architecture& architecture;
  const CalibrationText& text;
  std::size_t windows = 0;  ///< of its first ones
  std::filesystem::path scratch;
  JobReporter& reporter;
};

/// plan.items[item], quantized with other settings.
struct Probe {
  std::size_t item = 0;
  TensorSettings settings;
  const Shard* shard = nullptr;
};

/// For each probe, what the model loses by it alone:
///
///   KL(float ‖ only this weight quantized, with its corrected bias)   mean over the windows' positions, nats per token
///
/// Requires weights of the blocks' linear layers, and windows that check_windows() accepts.
/// Resuming  goes on behind the last window that a run which was killed finished; the numbers are the same.
/// Cost      a probe: from its block on, one forward pass of the windows. Memory: one window's residual stream at
///           every block's boundary and its activations.
/// Throws    NumericalError when a probe's divergence is not finite; FormatError.
/// Source    measured single-tensor divergences predict that of all together: Malinovskii et al., arXiv:2411.17525.
std::vector<double> probe_divergences(const ProbeJob& job, const Plan& plan, std::span<const Probe> probes);

/// By what all predicted losses of a weight are multiplied, one of them having been measured: measured / predicted,
/// within [1/16, 16]; 1 where either is 0 or the prediction is not finite, which tells nothing of other ways.
double probe_factor(double measured, double predicted);

}  // namespace nibble::quant
