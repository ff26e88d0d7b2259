#pragma once

#include <cstddef>
#include <cstdint>

#include "core/machine/isa.h"
#include "quant/kernels/packing/packed_kind.h"

namespace nibble::quant {

/// Some panels of a packed weight (quant/kernels/packing/code_layout.h) and up to four vectors of activations.
struct ExactMatvecArgs {
  const std::uint8_t* codes;  ///< (panels, units, unit_bytes)
  std::size_t panels, units, unit_bytes;
  const float* tables;  ///< (…, 2^bits): panel p uses table (first_panel + p) / panels_per_table
  std::size_t first_panel, panels_per_table;
  const std::uint16_t* block_scales;  ///< (panels, blocks, 16) float16, blocks = padded inputs / inputs_per_block()
  const std::uint8_t* block_zeros;    ///< the same shape, or null: 2^(bits-1)
  unsigned zero_of_table;             ///< blocks: 2^(bits-1) of the format's width
  const float* x;                     ///< (tokens, x_stride), arranged by arrange_activations()
  const float* block_sums;            ///< (tokens, blocks): sums of x, for block_zeros
  std::size_t x_stride, blocks;
  float* y;  ///< (tokens, y_stride): R sums per panel
  std::size_t y_stride;
};

/// y[t, p R + r] = sum over inputs j of w_rj · x_tj, in float32 with FMA where the processor has it:
///     palettes  w = palette[code]            blocks  w = (code - zero) · scale
///     block palettes  w = palette[code] · scale
///
/// Result   within 2 (n + 4) eps(float) sum_j |w_rj x_tj| of the exact sum, n = padded inputs; blocks with zero points
///          within 2 (n + 4) eps(float) sum_j (|code - 2^(bits-1)| + |zero - 2^(bits-1)|) |scale x_tj|. The same bits
///          for a token whatever others come with it.
using ExactMatvec = void (*)(const ExactMatvecArgs&);

/// Kernels of one instruction set by kept width (1 2 3 4 6 8), kind, and tokens taken at a time (1 or 4); null where
/// there is none.
struct ExactMatvecTable {
  ExactMatvec by_width[6][kPackedKinds][2];
};
extern const ExactMatvecTable kExactMatvecScalar, kExactMatvecAvx2, kExactMatvecAvx512, kExactMatvecNeon;

/// The kernel of the instruction set in force for a kept width and 1 or 4 tokens.
ExactMatvec select_exact_matvec(unsigned bits, PackedKind kind, std::size_t tokens);

}  // namespace nibble::quant
