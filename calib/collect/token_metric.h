#pragma once

#include <cstddef>
#include <vector>

#include "calib/stats/layer_stats.h"
#include "core/matrix/matrix_view.h"

// What Guide::kWhitened weighs tokens by. H_I ⊗ H_O stands for E[(x xᵀ) ⊗ (g gᵀ)] of a layer's centred inputs x and the
// gradients g at its outputs. Solvers push errors into directions in which both factors are small, so these have to be
// right there in proportion, not where they are large: the Kronecker product that is nearest by the divergence between
// normal distributions of these covariances, not by squares of differences, towards which GuidedQuant's weights |g|²
// are a step. It solves (Dutilleul 1999, "The MLE algorithm for the matrix normal distribution")
//
//   H_I = E[(gᵀ H_O⁻¹ g / out) x xᵀ]        H_O = E[(xᵀ H_I⁻¹ x / in) g gᵀ],
//
// of which one step is made from what the run's first windows give without weights. What that is worth, and more steps:
// docs/results/curvature.md, *What tokens weigh*.
namespace nibble::calib {

/// The first windows of a run, which give the metric: so a run can be extended, and cut into parts.
inline constexpr std::size_t kGuideWindows = 16;

/// What inputs and gradients are multiplied with before their sizes are weights. Empty matrices: nothing.
struct TokenMetric {
  Matrix<float> gradients;   ///< (out, out): s = |W g|² / out
  Matrix<float> inputs;      ///< (in, in): r = |W (x - mean)|² / in
  std::vector<double> mean;  ///< (in), with `inputs`
};

/// What a metric is made of where `collected` is to be weighed.
StatisticSet metric_statistics(const StatisticSet& collected);

/// The metric of a layer whose first windows gave `first`, of what that holds: gradients with the output Hessian,
/// inputs with Hessian and activations. Over these windows the mean of s is that of |g|² / out, and the mean of r is 1;
/// over others up to twice that, where the first ones were few. A layer that no token or no gradient reached weighs as
/// it is. Cost: 4/3 (in³ + out³) operations; 20 in² and 20 out² bytes, one after the other.
TokenMetric token_metric(const LayerStats& first);

/// A tenth of the mean diagonal, as when codes are solved for (quant/tensor), and n / tokens of it: directions that
/// `tokens` tokens did not show are no smaller than what they would let through unseen.
double metric_damping(std::size_t n, std::uint64_t tokens);

/// W (n, n), lower triangular, of a second moment S = E[v vᵀ] (n, n), in any unit, that is not all zero:
///
///   WᵀW = c M⁻¹,  M = S n / tr S + damping I,  c = tr S / tr(M⁻¹ S): E|W v|² = E|v|².
///
/// Where M is not positive definite by its rounding the damping is raised tenfold until it is. Throws NumericalError
/// where S is not finite or zero.
Matrix<float> whitening(const Matrix<double>& moment, double damping);

}  // namespace nibble::calib
