#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "calib/stats/hessian_kind.h"
#include "calib/stats/layer_stats.h"
#include "core/matrix/matrix_view.h"

// The one place where sums are divided by counts. N = tokens, S = samples (windows). Every function throws
// InvalidArgument, naming the layer, when it lacks the statistics asked for or has seen no tokens.

namespace nibble::calib {

std::vector<double> mean_input(const LayerStats& layer);      ///< (in): mu = sum_x / N
std::vector<double> second_moment(const LayerStats& layer);   ///< (in): E[x²] = sum_x2 / N
std::vector<double> mean_magnitude(const LayerStats& layer);  ///< (in): E|x| = sum_abs_x / N

/// (out, in): fisher / S, the mean over windows.
Matrix<double> mean_fisher(const LayerStats& layer);

/// (in, in), symmetric, in double. `row(j)` and column j are exactly zero where the input carries no information:
/// x_j = 0 always, or, when centred, x_j constant as far as the float sums can tell (diagonal below 2^-20 of the plain
/// one: storage rounds to 2^-24, and 16 leaves room for the rounding of the products). No diagonal is negative.
/// The centred kinds need `activations` too.
Matrix<double> hessian(const LayerStats& layer, HessianKind kind);

/// (out, out), symmetric, in double: how the gradients at the layer's outputs vary together, without their size,
///
///   H_O = sum_dydyt · out / tr(sum_dydyt),
///
/// so that its diagonal is 1 on average; all zero where there is no gradient at all. Rows and columns of outputs that
/// have none are exactly zero.
Matrix<double> output_hessian(const LayerStats& layer);

/// (in): the mean input that goes with a Hessian kind in the bias correction b + (W - What) mu: sum_x / N, or
/// sum_s_x / sum_s for the guided kinds (zero when sum_s is 0).
std::vector<double> correction_mean(const LayerStats& layer, HessianKind kind);

/// (Σ s)² / Σ s²: so many tokens of equal weight would tell as much as the guided Hessian's, whose weights s are heavy
/// in the tail (Kish's effective sample size). NaN where the file lacks Σ s² or every s is 0.
double effective_tokens(double sum_s, std::optional<double> sum_s2);

/// Inputs that were 0 for every token.
std::vector<std::size_t> dead_channels(const LayerStats& layer);

/// max |x| over all inputs and tokens, divided by the root mean square over all of them; 0 when all x are 0.
double outlier_ratio(const LayerStats& layer);

}  // namespace nibble::calib
