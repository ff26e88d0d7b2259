#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

/// Rounds a weight with error feedback in both directions, for the loss tr(H_O Δ H_I Δᵀ) (coupled_descent.h): rows in
/// blocks, each block by round_with_feedback() under H_I, then its error spread over the rows behind it so that the
/// loss stays least,
///
///   W_later -= (U_BB⁻¹ U_B,later)ᵀ (W_B − Ŵ_B),   UᵀU = H_O⁻¹,
///
/// which is LDLQ with the factors of both Hessians (YAQA, arXiv:2505.22988), but that rows of one block do not make up
/// for each other. BasicColumnRounding::row_blocks() says how many
/// blocks; each has at least 8 rows.
///
/// w (out, in), finite; `inputs` of an (in, in) Hessian, `outputs` of an (out, out) one in order (act_order = false).
/// Throws as round_with_feedback(), and InvalidArgument for factors that do not fit.
/// Cost: round_with_feedback() for all rows and, of codes that depend on each other, rows_ahead() more of each block;
/// m²·n/2 multiply-adds through gemm(). Memory: 8 bytes per weight.
/// Code: std::uint8_t and std::uint16_t.
template <class Code>
[[nodiscard]] Matrix<Code> round_with_coupled_feedback(MatrixView<const float> w, const HessianFactor& inputs,
                                                       const HessianFactor& outputs,
                                                       BasicColumnRounding<Code>& rounding);

}  // namespace nibble::quant
