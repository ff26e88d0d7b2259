#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"

namespace nibble::quant {

struct DescentResult {
  double loss_before = 0.0, loss = 0.0;  ///< tr(Δ H Δᵀ), Δ = w - decoded, as hessian_error()
  std::size_t sweeps = 0;                ///< run; fewer than allowed when one gained too little, or changed nothing
};

/// The most sweeps that a weight is worth, LNQ's, and the share of its loss that a sweep must gain to be followed by
/// another. More sweeps go on lowering the loss on the calibration text, and raise it on other text
/// (docs/results/defects.md).
constexpr std::size_t kMostSweeps = 4;
constexpr double kLeastGain = 1e-3;

/// Improves the codes of a weight by cyclic coordinate descent (LNQ, arXiv:2505.07004): each code in turn becomes the
/// best one while all others of its row stay,
///
///   q_ij = Q( w_ij - Σ_{k≠j} (H_kj / H_jj) (ŵ_ik - w_ik) ),
///
/// at most `sweeps` times over all inputs, until a sweep lowers the loss by less than `least_gain` of what it is then,
/// or nothing changes. The gain of a step with target t is H_jj ((ŵ_ij - t)² - (q_ij - t)²): that of a sweep is their
/// sum. No step raises the loss, but for rounding in float. Inputs with H_jj <= 0 are rounded to nearest.
///
/// w (out, in); h (in, in), symmetric; codes (out, in) valid for `rounding`, which does not adapt here.
/// Throws InvalidArgument when shapes do not fit; NumericalError for a loss that is not finite.
/// Cost     m·n² multiply-adds through gemm() per sweep and m·n·128 in plain loops, and as much as one sweep for each
/// of
///          the two losses. Memory: 4 bytes per weight. Threads: all; results do not depend on their number.
/// With a rounding of whole columns a step is one column, and the calling thread works alone.
/// Code: std::uint8_t and std::uint16_t.
template <class Code>
DescentResult coordinate_descent(MatrixView<const float> w, MatrixView<const float> h,
                                 const BasicColumnRounding<Code>& rounding, std::size_t sweeps,
                                 std::type_identity_t<MatrixView<Code>> codes, double least_gain = 0.0);

/// decoded - w of all codes, (out, in).
template <class Code>
[[nodiscard]] Matrix<float> decoded_errors(MatrixView<const float> w, const BasicColumnRounding<Code>& rounding,
                                           std::type_identity_t<MatrixView<const Code>> codes);

/// tr(Δ H Δᵀ) of codes, Δ = w - decoded.
template <class Code>
[[nodiscard]] double hessian_error(MatrixView<const float> w, MatrixView<const float> h,
                                   const BasicColumnRounding<Code>& rounding,
                                   std::type_identity_t<MatrixView<const Code>> codes);

}  // namespace nibble::quant
