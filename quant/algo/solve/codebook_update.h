#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"

namespace nibble::quant {

/// The palettes that are best under H for the codes and scales as they are (GANQ's and LNQ's codebook step, pooled over
/// the rows of a group): the minimum over c of Σ_i tr(Δ_i H Δ_iᵀ), by the normal equations
///
///   A_kl = Σ_i s_i² P_ikᵀ H P_il,   b_k = Σ_i s_i P_ikᵀ H w_i,   A c = b,   P_ik the inputs of row i with code k
///
/// solved for the change of c by conjugate gradients, at most k steps for each group, of four groups together at most:
/// entries that no input has, or that A does not determine, stay. Entries are rounded to `palette_dtype`
/// (round_palette()), sorted, and the codes follow; those of windows keep their order.
///
/// Before that rounding the loss does not rise. w (out, in), h (in, in).
/// Throws InvalidArgument for shapes that do not fit; NumericalError for an entry that is not finite in its type.
/// Cost: m·n² multiply-adds through gemm() at first and for each step. Memory: 8·k bytes per row, and 8 bytes per
/// weight of a tile of 128 rows on each thread. Threads: all; results do not depend on their number.
/// `h_out` (out, out), if given: the same for tr(H_O Δ H Δᵀ) (coupled_descent.h), m²·n more multiply-adds for each
/// product and 8 bytes per weight. `slopes`, `least_step`: solve_palette_system() (palette_system.h).
/// Code, here and below: std::uint8_t and std::uint16_t.
template <class Code>
void update_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype,
                     BasicPaletteWeight<Code>& weight, MatrixView<const float> h_out = {}, Matrix<float> slopes = {},
                     double least_step = 0.0);

/// The scales that are best under H for the palettes and codes as they are, rounded to float16:
///
///   s_i = (w_i - k_i)ᵀ H q_i / q_iᵀ H q_i,   q_ij = palettes(i / group_rows, codes(i, j));
///
/// k_i the sparse values of the row, where q_i is 0;
/// a row where the divisor is 0, or the result not finite in float16, keeps its scale. Starts from ones where there are
/// no scales. Cost: m·n² multiply-adds through gemm().
/// `h_out` (out, out), if given: the same for tr(H_O Δ H Δᵀ), for all rows together (coupled_fit.h).
template <class Code>
void update_scales(MatrixView<const float> w, MatrixView<const float> h, BasicPaletteWeight<Code>& weight,
                   MatrixView<const float> h_out = {});

}  // namespace nibble::quant
