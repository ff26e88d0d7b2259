#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// How a block's scale follows from its values. `half` = 2^(bits-1).
enum class BlockScale : std::uint8_t {
  kExtreme,     ///< (value of largest magnitude) / -half: it becomes code 0 exactly; scales may be negative (Q4_0)
  kAbsmax,      ///< max |w| / (half - 1): codes 1 to 2·half - 1
  kAbsmaxHalf,  ///< max |w| / (half - 0.5): largest values clipped by half a step on one side
  kMinmax,      ///< (max - min) / (2^bits - 1) with 0 in [min, max] and a zero point, round(-min / scale)
};

/// Settings of round_blocks().
struct BlockRoundingOptions {
  unsigned bits = 4;                        ///< 2 to 8
  std::size_t block = 32;                   ///< inputs per block along a row, 0 = the whole row
  BlockScale scale = BlockScale::kExtreme;  ///< kMinmax stores zero points; the others are symmetric
};

/// A weight on block grids: value (i, j) = (codes(i, j) - zero) · scales(i, j / block), zero = zeros(i, j / block), or
/// 2^(bits-1) where zeros is empty.
struct BlockRounding {
  Matrix<float> scales;        ///< (out, blocks), exact in float16, finite
  Matrix<std::uint8_t> zeros;  ///< (out, blocks) with kMinmax, else empty
  Matrix<std::uint8_t> codes;  ///< (out, in), one byte each, < 2^bits
};

/// Rounds a weight to uniform grids, one scale (and zero point) per block of a row; a last short block is allowed.
///
/// The scale is computed in float and rounded to float16 (half to even) before codes are chosen:
///   code = clamp(round_half_even(w · (1 / scale)) + zero, 0, 2^bits - 1), in float.
/// A block whose scale rounds to 0 (all zeros, or below float16) gets scale 0 and code = zero: it decodes to zeros.
///
/// Throws InvalidArgument: options out of range; NumericalError: a NaN or infinite value, or a scale beyond float16
/// (row and column).
/// Threads: rows run on all threads; results do not depend on their number, nor on the instruction set.
[[nodiscard]] BlockRounding round_blocks(MatrixView<const float> w, const BlockRoundingOptions& options);

}  // namespace nibble::quant
