#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "quant/job/plan/job_reporter.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/predicted_loss.h"

namespace nibble::quant {

/// A weight to quantize, and the file that keeps what comes out.
struct ShardJob {
  const QuantizeItem* item = nullptr;
  std::filesystem::path file;
  std::optional<LossEstimate> estimate = {};  ///< sets TensorResult::predicted_loss
  Flush quickly_made = Flush::kYes;           ///< whether the file is flushed that took less than a second to make
};

/// Quantizes all weights on all threads, largest first, or finds them done by a run that was killed; `reporter` hears
/// of each. Shards in the order of `jobs`.
/// Memory   `memory_bytes`, however many threads; a weight that needs more with its statistics is worked on alone, and
///          ScratchMemory of the caller maps the rest.
std::vector<Shard> make_shards(std::span<const ShardJob> jobs, const Calibration& calibration, JobReporter& reporter,
                               std::uint64_t memory_bytes, Announce announce = Announce::kYes);

}  // namespace nibble::quant
