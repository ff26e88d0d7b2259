#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/hessian.h"

namespace nibble::quant {

/// The palettes that are best under H for the codes and scales as they are (GANQ's and LNQ's codebook step, pooled over
/// the rows of a group): the minimum over c of Σ_i tr(Δ_i H Δ_iᵀ), by the normal equations
///
///   A_kl = Σ_i s_i² P_ikᵀ H P_il,   b_k = Σ_i s_i P_ikᵀ H w_i,   A c = b,   P_ik the inputs of row i with code k
///
/// solved for the change of c by conjugate gradients, at most k steps: entries that no input has, or that A
/// does not determine, stay. Entries are rounded to `palette_dtype` (round_palette()), sorted, and the codes follow;
/// those of windows keep their order.
///
/// Before that rounding the loss does not rise. w (out, in), h (in, in).
/// Throws InvalidArgument for shapes that do not fit; NumericalError for an entry that is not finite in its type.
/// Cost: m·n² multiply-adds through gemm() at first and for each step. Memory: 8·k bytes per row, and 8 bytes per
/// weight of a tile of 128 rows on each thread. Threads: all; results do not depend on their number.
/// `h_out` (out, out), if given: the same for tr(H_O Δ H Δᵀ) (coupled_descent.h), m²·n more multiply-adds for each
/// product and 8 bytes per weight.
/// Code, here and below: std::uint8_t and std::uint16_t.
template <class Code>
void update_palettes(MatrixView<const float> w, MatrixView<const float> h, DType palette_dtype,
                     BasicPaletteWeight<Code>& weight, MatrixView<const float> h_out = {});

/// The scales that are best under H for the palettes and codes as they are, rounded to float16:
///
///   s_i = (w_i - k_i)ᵀ H q_i / q_iᵀ H q_i,   q_ij = palettes(i / group_rows, codes(i, j));
///
/// k_i the sparse values of the row, where q_i is 0;
/// a row where the divisor is 0, or the result not finite in float16, keeps its scale. Starts from ones where there are
/// no scales. Cost: m·n² multiply-adds through gemm().
/// `h_out` (out, out), if given: the same for tr(H_O Δ H Δᵀ), whose normal equations H_O ∘ (Q H Qᵀ) δ = diag(H_O (W −
/// Ŵ) H Qᵀ) for the change δ of all scales conjugate gradients solve; 2 m²·n more multiply-adds, 4 m² bytes.
template <class Code>
void update_scales(MatrixView<const float> w, MatrixView<const float> h, BasicPaletteWeight<Code>& weight,
                   MatrixView<const float> h_out = {});

/// Settings of refine_palettes().
struct RefineOptions {
  std::size_t iterations = 2;
  std::size_t sweeps = kMostSweeps;   ///< of coordinate_descent() or coupled_descent() per iteration, at most; 0 = none
  double least_gain = kLeastGain;     ///< of a sweep
  bool scales = false;                ///< update row scales as well
  DType palette_dtype = DType::kF16;  ///< kF16, kF32 or kI8
};

/// Losses of refine_palettes(): of the start, after each iteration, and after the last update.
using RefineHistory = std::vector<double>;

/// Alternates palettes (and scales) under H with codes, which are chosen anew by round_with_feedback() where `feedback`
/// is given and then improved by coordinate descent, at most `options.sweeps` sweeps; ends with an update of the
/// palettes, each until a step of the conjugate gradients gains less than a thousandth of all before. Leaves the best
/// of all these, the start included, in `weight`. With `h_out` (out, out) all of it is for tr(H_O Δ H Δᵀ), and there is
/// no feedback.
template <class Code>
RefineHistory refine_palettes(MatrixView<const float> w, MatrixView<const float> h, const HessianFactor* feedback,
                              const RefineOptions& options, BasicPaletteWeight<Code>& weight,
                              MatrixView<const float> h_out = {});

}  // namespace nibble::quant
