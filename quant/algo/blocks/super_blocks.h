#pragma once

#include <cstddef>

#include "core/matrix/matrix_view.h"
#include "quant/algo/blocks/block_palette.h"
#include "quant/algo/blocks/block_rounding.h"

namespace nibble::quant {

/// Gives the blocks of each super-block, `super_block` inputs of a row, scales that are whole multiples of one step,
///
///   s_b = k_b d,   k_b from -32 to 31,   d a float16 of 6 significant bits
///
/// as GGUF's Q3_K and IQ4_XS store them (6 bits a block and a float16 for 256 inputs); products of such numbers are
/// exact in float16. The step is the one, of 16 that make the largest scale -32 to -24 or 24 to 31 of them, each then
/// refined to the least-squares step of its multiples, with the least
///
///   Σ_b c_b (s_b - k_b d)²,   c_b = Σ_j q_j² over the block's codes less zero (or entries of the palette),
///
/// what a scale beside s_b adds to the squared error where s_b is best. Codes are then the nearest ones for the new
/// scales. A last super-block of a row may have fewer blocks.
///
/// Requires `super_block` > 0, a multiple of options.block, which is not 0; scales finite in float16; no zero points.
/// Throws InvalidArgument otherwise.
/// Cost     40 passes over the scales, one over the weights.
/// Threads  All; results do not depend on their number.
void share_steps(MatrixView<const float> w, const BlockRoundingOptions& options, std::size_t super_block,
                 BlockRounding& rounded);
/// The same for block palettes of kFloat16 scales.
void share_steps(MatrixView<const float> w, const BlockPaletteOptions& options, std::size_t super_block,
                 BlockPaletteRounding& rounded);

}  // namespace nibble::quant
