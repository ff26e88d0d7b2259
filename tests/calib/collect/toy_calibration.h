#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calib/collect/collector.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/files.h"

namespace nibble::calib {

inline constexpr std::size_t kWindow = 16;
inline constexpr std::size_t kBatchWindows = 128;  // what the collector takes together: 2048 tokens

/// A toy network and windows for it, and jobs over them. More windows than kBatchWindows make several batches.
struct ToyCalibration {
  explicit ToyCalibration(const std::string& family, std::size_t windows = 5)
      : architecture(test::toy_architecture(family)),
        weights(architecture, 7),
        model(model::make_model(architecture, weights)),
        tokens(test::toy_tokens(architecture, windows * kWindow, 3)) {}

  CalibrationJob job(const std::string& name, const StatisticSet& collected = kEverything) const {
    return {.model = *model,
            .tokens = tokens,
            .settings = {.model_hash = "toy", .window_tokens = kWindow, .seeds = {11}, .collected = collected},
            .output = dir / name};
  }
  std::shared_ptr<const StatsFile> run(const CalibrationJob& job) const {
    calibrate(job);
    return StatsFile::open(job.output);
  }

  test::TempDir dir;
  model::Architecture architecture;
  test::ToyWeights weights;
  std::unique_ptr<model::Model> model;
  std::vector<TokenId> tokens;
};

/// One byte less than what would keep the residual stream in memory.
inline std::uint64_t memory_that_forces_files(CalibrationJob job) {
  job.memory_bytes = ~std::uint64_t{0};
  return plan_job(job).memory_bytes - 1;
}

}  // namespace nibble::calib
