#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/job/plan/plan.h"
#include "quant/job/plan/result.h"
#include "quant/job/statistics/calibration.h"

namespace nibble::quant {

/// Settings with the same storage that need no statistics: nearest codes, every weight alike, no shifted bias.
TensorSettings without_statistics(TensorSettings settings);

/// Takes out biases that shifting was to add, of layers none of which is shifted any more, and what they count.
void drop_unshifted_biases(Plan& plan);

/// Whether so few tokens chose an expert that it is quantized without statistics: fewer than it has inputs.
inline bool is_rare(std::uint64_t tokens, std::size_t inputs) { return tokens < inputs; }

/// An expert whose calibration saw fewer tokens than it has inputs: its Hessian has no inverse of its own, and with no
/// token at all there is nothing to weigh by. Its items get settings without statistics, and no bias that only they
/// would shift; the result names them, in the order of plan.items. Items that need none, or are not experts', stay as
/// they are. What `sequential` collects on the way counts when it is there (sequential.cc), unless a budget compares
/// ways by the files' statistics first. Requires that the statistics are there (Calibration::require_for).
std::vector<RareExpert> set_rare_experts(Plan& plan, const Calibration& calibration, bool budget);

}  // namespace nibble::quant
