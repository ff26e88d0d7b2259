#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/coordinate_descent.h"

namespace nibble::quant {

/// S = H_O Δ H_I of errors Δ (out, in), half the gradient of tr(H_O Δ H_I Δᵀ) by Δ, input by input: (in, out).
/// h_in (in, in) and h_out (out, out), symmetric. Cost: m·n² + m²·n multiply-adds through gemm(). Memory: 8 bytes per
/// weight. Throws InvalidArgument for shapes that do not fit.
[[nodiscard]] Matrix<float> coupled_slopes(MatrixView<const float> delta, MatrixView<const float> h_in,
                                           MatrixView<const float> h_out);

/// tr(H_O Δ H_I Δᵀ) of errors Δ (out, in), at least 0: what an error of the weights costs where errors of different
/// outputs have to do with each other, H_O (out, out) being the covariance of the loss' gradients at the outputs and
/// H_I (in, in) a Hessian of the inputs (the curvature of the loss as a Kronecker product: K-FAC, arXiv:1503.05671).
/// Cost, memory and errors: as coupled_slopes(), or the sum of Δ S where these are given.
[[nodiscard]] double coupled_error(MatrixView<const float> delta, MatrixView<const float> h_in,
                                   MatrixView<const float> h_out);
[[nodiscard]] double coupled_error(MatrixView<const float> delta, MatrixView<const float> slopes);

struct CoupledDescentResult : DescentResult {
  Matrix<float> slopes;  ///< coupled_slopes() of the codes that came out, as sweeps kept them up to date
};

/// The most sweeps of coupled_descent() that a weight is worth: sums over outputs too move codes more slowly, and go on
/// gaining on other text (docs/results/curvature.md).
constexpr std::size_t kMostCoupledSweeps = 8;

/// coordinate_descent() for the loss tr(H_O Δ H_I Δᵀ): input by input, each code in turn becomes the best one while all
/// others of the weight stay (BasicColumnRounding::improve()), at most `sweeps` times, until a sweep lowers the loss by
/// less than `least_gain` of what it is then. No step raises the loss, but for rounding in float. Inputs whose diagonal
/// is 0 are rounded to nearest, outputs keep their codes.
///
/// w (out, in); h_in (in, in) and h_out (out, out), symmetric; codes (out, in) valid for `rounding`, which does not
/// adapt here. Throws InvalidArgument when shapes do not fit; NumericalError for a loss that is not finite.
/// `slopes`: coupled_slopes() of the errors of `codes`, if they are known.
/// Cost     coupled_slopes() once unless they are, then m·n² multiply-adds through gemm() per sweep; in plain loops on
/// the calling
///          thread m for each code that changes and m·n·64. Memory: 8 bytes per weight, 1 KiB per row.
/// Threads  gemm() on all; results do not depend on their number.
/// Code: std::uint8_t and std::uint16_t.
template <class Code>
CoupledDescentResult coupled_descent(MatrixView<const float> w, MatrixView<const float> h_in,
                                     MatrixView<const float> h_out, const BasicColumnRounding<Code>& rounding,
                                     std::size_t sweeps, std::type_identity_t<MatrixView<Code>> codes,
                                     double least_gain = 0.0, Matrix<float> slopes = {});

}  // namespace nibble::quant
