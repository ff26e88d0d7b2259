#pragma once

#include <cstddef>

#include "quant/job/plan/plan.h"
#include "quant/recipe/recipe.h"

namespace nibble::quant {

/// What quantizing takes, for estimates before it begins.
struct WorkEstimate {
  double thread_seconds = 0.0;  ///< of what is done to weights, one by one or under Hessians
  double window_passes = 0.0;   ///< forward passes of windows of text through the whole network, or as much
};

/// By the recipe, from what its methods took per weight on one thread of an Intel Xeon (Emerald Rapids) for layers of
/// 384 to 1024 inputs: within a factor of two or three elsewhere. `windows` are those of the text, those that tuning
/// holds out among them; 0 where there is none. Cost: a walk over the plan.
WorkEstimate estimate_work(const Plan& plan, const Recipe& recipe, std::size_t windows);

}  // namespace nibble::quant
