#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// What damping is a share of.
enum class DampingUnit : std::uint8_t {
  kOwn,   ///< each input's own diagonal (Marquardt): correlations shrink towards 0, and inputs in other units give the
          ///< same codes
  kMean,  ///< the mean diagonal, the same for all inputs, as GPTQ was published: quiet inputs are damped most
};

/// Settings of factor_hessian().
struct FactorOptions {
  double damping = 0.01;  ///< added to each diagonal entry, as a share of it or of their mean; >= 0
  DampingUnit unit = DampingUnit::kOwn;
  bool act_order = true;   ///< inputs by decreasing diagonal instead of as they come
  bool in_double = false;  ///< factor in double instead of float, at a fraction of the speed
};

/// A Hessian made ready for error feedback.
struct HessianFactor {
  std::vector<std::size_t> order;  ///< (n): position p holds input order[p]
  Matrix<float> upper;             ///< (n, n): upper triangular U with UᵀU = (H + diag(damping))⁻¹, in that order
  /// (n), by input: 1 where the diagonal is 0 or negative (an input that is always 0, or constant when centred). Such
  /// inputs are rounded to nearest: neither do they take errors of other inputs nor pass theirs on. (Under a Hessian of
  /// outputs feedback gives them those of other rows; the descent behind it rounds them to nearest again.)
  std::vector<std::uint8_t> silent;
  std::size_t silent_inputs = 0;  ///< how many of them
  double damping_share = 0.0;     ///< the share that it took
  std::vector<double> damping;    ///< (n), by input: the same in units of H; of silent inputs, of the mean diagonal
};

/// Factors H (n, n), symmetric (the lower triangle in act-order is read), for error feedback (GPTQ, arXiv:2210.17323).
///
/// Where a few inputs are loud, a share of the mean diagonal drowns the rest; where none is, it holds back fits to what
/// few tokens say of quiet inputs (docs/results/damping.md). When H with its damping is not positive definite, the
/// damping is raised tenfold (from 0: to 1e-6) until it is. U comes from one Cholesky factorisation: with H = R Rᵀ, R
/// upper triangular, U = R⁻¹. That is a Cholesky factorisation in reverse order and more accurate than inverting H
/// first.
///
/// T        float or double.
/// Throws   InvalidArgument: not square, empty, or a damping out of range; NumericalError: a NaN or infinite entry
///          (named by row and column), or no damping up to 1e4 helps.
/// Cost     n³/3 multiply-adds through gemm() per attempt. Memory: 8 bytes (in double 20) per entry of H.
/// Threads  all; results do not depend on their number.
template <class T>
[[nodiscard]] HessianFactor factor_hessian(MatrixView<const T> h, const FactorOptions& options);

/// tr(Δ H Δᵀ), at least 0: the error that a layer's outputs get from a weight error Δ (m, n), summed over outputs.
/// H (n, n). Products in float, their sum in double. Cost: m·n² multiply-adds through gemm(). Threads: all; results do
/// not depend on their number. Throws InvalidArgument when the shapes do not fit.
[[nodiscard]] double hessian_error(MatrixView<const float> delta, MatrixView<const float> h);

/// tr(H_O Δ H Δᵀ), at least 0: the same with errors of different outputs that meet in the loss, H_O (m, m). Cost: m²·n
/// multiply-adds more.
[[nodiscard]] double coupled_hessian_error(MatrixView<const float> delta, MatrixView<const float> h,
                                           MatrixView<const float> h_out);

}  // namespace nibble::quant
