#pragma once

#include <cstdint>

#include "calib/stats/layer_stats.h"
#include "quant/job/network/layer_drift.h"
#include "quant/job/statistics/input_map.h"

namespace nibble::quant {

/// The map from a layer's inputs X in the float model to those it gets behind quantized layers, X~: `now`, whose
/// activations and Hessian it takes, and `drift` with its `squares`. About the means, with d = x - x~, C = E[x xᵀ] and
/// P = E[d xᵀ],
///
///   change = diag(a) P (C + Λ)⁻¹        the least squares of d given x; Λ a share `damping` of C's diagonal
///   rest   = E[(d - change x)(d - change x)ᵀ]
///
/// A regression on few tokens fits noise: of row i the size p_i (C + Λ)⁻¹ p_iᵀ, of which what is left of E[d_i²] times
/// in / (tokens - in) is expected of chance (as of independent tokens), and a_i is the signal_share() of that; 0 where
/// there are no more tokens than inputs. The products of all tokens, weighted alike, are carried to those of X~ but for
/// Λ and a. Inputs that are constant in the float model, to rounding, foretell nothing.
///
/// Cost: 5⅓ in³ multiply-adds in float. Memory: map_bytes(), `squares` among them. Throws as factor_hessian().
[[nodiscard]] InputMap map_inputs(const calib::LayerStats& now, const LayerDrift& drift, Matrix<float> squares,
                                  double damping = 1e-3);

/// What making a map of so many inputs takes, the 8 bytes an entry of its own among them.
constexpr std::uint64_t map_bytes(std::uint64_t in) { return 24 * in * in; }

}  // namespace nibble::quant
