#pragma once

#include <cstdint>

#include "calib/stats/layer_stats.h"
#include "quant/job/network/layer_drift.h"
#include "quant/job/statistics/input_map.h"

namespace nibble::quant {

/// The map from a layer's inputs X in the float model to those it gets behind quantized layers, X~: `now`, whose
/// activations and Hessian it takes, and `drift`, which has squares. About the means, with C = E[x xᵀ] and
/// P = E[(x - x~) xᵀ],
///
///   change = P (C + Λ)⁻¹        the least squares of x - x~ given x, Λ 10⁻⁴ of C's diagonal, so that floats will do
///   rest   = E[(x - x~)(x - x~)ᵀ] - P changeᵀ - change Λ changeᵀ        what is left of the products of x - x~
///
/// `rest` is a covariance. The products of all tokens, weighted alike, are carried to those of X~ but for Λ. Cost: 4⅓
/// in³ multiply-adds in float. Memory: map_bytes(). Throws as factor_hessian().
[[nodiscard]] InputMap map_inputs(const calib::LayerStats& now, const LayerDrift& drift);

/// What making a map of so many inputs takes, the 8 bytes an entry of its own among them.
constexpr std::uint64_t map_bytes(std::uint64_t in) { return 24 * in * in; }

}  // namespace nibble::quant
