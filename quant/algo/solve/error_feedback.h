#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

template <class Code>
struct BasicFeedbackResult {
  Matrix<Code> codes;  ///< (out, in)
  /// tr(Δ H Δᵀ), Δ = w - decoded, over the inputs that are not silent, as the feedback sums it: the damped error less
  /// the damping's part of it, exact but for the rounding of the factor.
  double loss = 0.0;
};

using FeedbackResult = BasicFeedbackResult<std::uint8_t>;

/// Rounds a weight input by input, each time spreading the error over the inputs not yet rounded so that the error of
/// the outputs under H stays least (GPTQ, arXiv:2210.17323; the optimal brain surgeon update for each row):
///
///   for p = 0 … n-1, j = order[p]:  q_j = Q(w_j),  e = (w_j - q_j) / U_pp,  w_k -= e · U_pq for all later k = order[q]
///
/// With H diagonal it is rounding to nearest. Rows are independent of each other, but for what `rounding` has them
/// share.
///
/// w (out, in), finite; `factor` of an (in, in) Hessian; `rounding` for w's rows and columns. Grids that adapt need
/// their inputs in order: a factor without act_order.
/// Throws InvalidArgument for shapes or order that do not fit; NumericalError naming the first NaN or infinite weight,
/// or when the feedback overflows.
/// Cost: m·n²/2 multiply-adds through gemm() and m·n·64 in plain loops. Memory: 4 bytes per weight of a tile of 128
/// rows on each thread, and the codes.
/// Threads: all; results do not depend on their number. A rounding of whole columns: the calling one, and 4 bytes per
/// weight.
/// Code: std::uint8_t and std::uint16_t.
template <class Code>
[[nodiscard]] BasicFeedbackResult<Code> round_with_feedback(MatrixView<const float> w, const HessianFactor& factor,
                                                            BasicColumnRounding<Code>& rounding);

}  // namespace nibble::quant
