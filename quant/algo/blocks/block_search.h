#pragma once

#include "core/matrix/matrix_view.h"
#include "quant/algo/blocks/block_rounding.h"

namespace nibble::quant {

/// Rounds a weight to uniform grids as round_blocks() does, but with the scale of each block (and its zero point)
/// searched instead of ruled:
///
///   E(s, z) = Σ_j f_j (w_j - s q_j)²,   q_j = clamp(round(w_j / s), -z, top - z)                       (1)
///
/// `weights` f (out, in), finite and >= 0, or an empty view for ones. options.scale says where the search starts and
/// what it may use: kExtreme scales of either sign, kAbsmax and kAbsmaxHalf positive ones, kMinmax positive ones with a
/// zero point; all of them every code.
///
/// Method: a geometric grid of scales around the rule's, from 1.2 times down to where 2 bits keep one step and 8 bits a
/// quarter of their range. For the codes q of each candidate the best scale is closed, s' = Σ f w q / Σ f q²:
/// candidates are compared by what they lose with it. The best one is improved by alternating codes and s', then
/// rounded to float16: to whichever of three neighbours loses least. A block keeps its rule's scale where nothing found
/// loses less.
///
/// Ensures  E, as stored, is never above that of round_blocks(), but for rounding in float. Let E* be the least E over
///          all scales within the grid's range (and zero points tried), reached with values v = s* q*. A candidate lies
///          within a factor 1 ± d of s*, d half the grid's spacing (2 % at 4 bits), and so
///            sqrt(E) <= sqrt(E*) + d · sqrt(Σ f v²)  before rounding;
///          the closed form makes the second term vanish where a candidate has the codes of s*. Measured at 4 bits, E
///          is 0.001 to 0.4 % above E*, with heavy-tailed weights up to 2.5 %.
/// Throws   As round_blocks(); InvalidArgument for shapes or weights that do not fit.
/// Cost     About 60 to 150 passes of ten instructions over blocks held in cache, 16 rows at a time.
/// Threads  All; results do not depend on their number. Instruction sets may differ where two scales lose alike.
[[nodiscard]] BlockRounding search_blocks(MatrixView<const float> w, MatrixView<const float> weights,
                                          const BlockRoundingOptions& options);

/// The same for the error of the outputs under a Hessian h (in, in), symmetric, within blocks:
///
///   E(s, z) = δ H_b δᵀ,   δ_j = w_j - s q_j,   H_b the block's inputs in h
///
/// with codes nearest to the weights, as in (1). Blocks longer than 64 inputs take H_b in diagonal pieces of 64. What
/// couples blocks is left to error feedback. Cost: 64 multiply-adds more per weight and candidate.
[[nodiscard]] BlockRounding search_blocks_hessian(MatrixView<const float> w, MatrixView<const float> h,
                                                  const BlockRoundingOptions& options);

}  // namespace nibble::quant
