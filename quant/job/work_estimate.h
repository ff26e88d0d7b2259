#pragma once

#include <cstddef>
#include <cstdint>

#include "calib/stats/statistic_set.h"
#include "quant/job/plan/plan.h"
#include "quant/recipe/recipe.h"

namespace nibble::quant {

/// What quantizing takes, for estimates before it begins.
struct WorkEstimate {
  double thread_seconds = 0.0;             ///< of what is done to weights, one by one or under Hessians
  double window_passes = 0.0;              ///< forward passes of windows of text through the whole network, or as much
  std::uint64_t largest_weight_bytes = 0;  ///< work_bytes() of the weight that takes most, in its largest way
};

/// Windows of the text of a job: the first of it, that `sequential` runs over, and all.
struct TextWindows {
  std::size_t statistics = 0, all = 0;
};

/// By the recipe, every way of its budget, from what methods took per weight on one thread of an Intel Xeon (Emerald
/// Rapids) for layers of 384 to 1024 inputs: within a factor of three on models of that size and more. `statistics` are
/// those that a calibration holds of the blocks' linear layers, and of the head where the plan needs them of it. Cost:
/// a walk over the plan. Throws InvalidArgument for a budget whose ways do not go together.
WorkEstimate estimate_work(const Plan& plan, const Recipe& recipe, TextWindows windows,
                           const calib::StatisticSet& statistics);

}  // namespace nibble::quant
