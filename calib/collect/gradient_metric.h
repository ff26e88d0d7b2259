#pragma once

#include <cstddef>

#include "core/matrix_view.h"

// How Guide::kWhitened weighs tokens. H_I ⊗ H_O stands for E[(x xᵀ) ⊗ (g gᵀ)] of a layer's inputs x and the gradients g
// (out) at its outputs. Solvers push errors into directions in which both factors are small, so it has to be right
// there in proportion, not where it is large: the Kronecker product that is nearest by the divergence between normal
// distributions of these covariances (Dutilleul 1999), not by squares of differences, which GuidedQuant's weights |g|²
// are a step towards. Given H_O it has
//
//   H_I = E[gᵀ H_O⁻¹ g · x xᵀ] / out,
//
// so each direction of the gradients counts by what it has beyond its usual size. What that is worth:
// docs/results/quality.md, *What tokens weigh*.
namespace nibble::calib {

/// The first windows of a run, whose output Hessian is the metric: so a run can be extended, and be cut into parts.
inline constexpr std::size_t kGuideWindows = 16;
/// The share of its mean diagonal that is added to all of it, as when codes are solved for (quant/tensor).
inline constexpr double kGuideDamping = 0.1;

/// W (out, out), lower triangular, such that s = |W g|² / out is what a token weighs:
///
///   WᵀW = c M⁻¹,  M = S out / tr S + kGuideDamping I,  c = tr S / tr(M⁻¹ S),
///
/// S = Σ g gᵀ; so over the tokens of S, the sum of s is that of |g|² / out, and budgets compare layers as they would.
/// Empty where S is all zero: no token reached the layer, and g weighs as it is. Requires S as LayerStats::sum_dydyt.
/// Throws NumericalError when M cannot be factored. Cost: 4/3 out³ operations, a second matrix of its size.
Matrix<float> whitening(const Matrix<float>& sum_dydyt);

}  // namespace nibble::calib
