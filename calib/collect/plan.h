#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "calib/collect/block_sums.h"
#include "calib/stats/run_settings.h"
#include "model/architecture/architecture.h"

namespace nibble::calib {

/// What a calibration will take, known before it starts. Sizes are upper bounds of what this program asks for.
struct CalibrationPlan {
  std::size_t windows_per_batch = 0;    ///< windows that go through a block together, the same for every --memory
  bool residuals_on_disk = false;       ///< boundary activations do not fit the memory granted, or the run is long
  std::uint64_t residual_bytes = 0;     ///< of them, wherever they are
  std::uint64_t accumulator_bytes = 0;  ///< most sums in double that are held at once
  std::uint64_t accumulator_limit = 0;  ///< a block whose sums need more is walked several times, some layers each
  std::size_t most_passes = 1;          ///< how often, at most
  std::uint64_t memory_bytes = 0;       ///< peak of anonymous memory, accumulators and residuals included
  std::uint64_t disk_bytes = 0;         ///< output, shards and scratch file together, beside the output
  double operations = 0.0;              ///< floating-point operations of all matrix products, attention's too
  double metric_operations = 0.0;       ///< those among them that give the metric of a whitened guide
};

/// Windows of `window_tokens` that go through a block together, however many there are and whatever is collected.
std::size_t windows_per_batch(const model::Architecture& architecture, std::size_t window_tokens);

/// What a plan depends on beside the run's settings.
struct PlanContext {
  std::size_t processes = 1;  ///< that share the windows of a whitened guide's metric
  bool has_metric = false;    ///< another run collects it: a part's whole, or windows before
  std::uint64_t disk = 0;     ///< bytes that scratch files may take for a long run to go on after a kill
  bool writes_file = true;    ///< a calibration file, and shards of it, on the same disk
  std::string_view remedy = "--collect less at a time";
};

/// Plans a run with these settings (`windows` is this process's share) within `memory` bytes, on thread_count()
/// threads. Throws InvalidArgument when the sums of one layer (with those that share its input) and one batch alone
/// need more, saying how much and what helps: to grant more, or `context.remedy`.
CalibrationPlan plan_calibration(const model::Architecture& architecture, const RunSettings& settings,
                                 std::uint64_t memory, const PlanContext& context = {});

/// Cuts the layers of one block into runs [begin, end) that are summed in one walk each: as many as `limit` bytes of
/// sums hold, layers that share an input together, with what lies between them.
std::vector<std::pair<std::size_t, std::size_t>> layer_groups(std::span<const CollectedLayer> layers,
                                                              const StatisticSet& what, Guide guide,
                                                              std::uint64_t limit);

/// Bytes that scratch files may take in `directory`, which need not be there yet: half of what its file system has free
/// with the files that an earlier run left in it, which this one writes again; 0 where that cannot be told.
std::uint64_t disk_for_scratch(const std::filesystem::path& directory);

/// Seconds that a plan takes on this machine at 60 % of its GEMM rate, which is measured (a few hundredths of a
/// second).
double estimate_seconds(const CalibrationPlan& plan);

/// Throws FormatError unless the file system of `output` has room for the plan, `present` bytes of which are there
/// already.
void require_disk_space(const CalibrationPlan& plan, const std::filesystem::path& output, std::uint64_t present);

}  // namespace nibble::calib
