#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/int8_matvec.h"
#include "quant/kernels/quantized_tiles.h"

namespace nibble::quant {

/// Up to `most_panels` panels of 16 rows of a packed weight (quant/kernels/code_layout.h) and tiles of tokens.
struct Int8MatmulArgs {
  const std::uint8_t* codes;  ///< R = 16: (panels, units, unit_bytes); R = 1: (rows, units, unit_bytes)
  std::size_t panels, units, unit_bytes;
  std::size_t rows;  ///< R = 1: of the weight that there are from the first one on; lanes beyond repeat the last
  const std::uint8_t* tables;  ///< as Int8MatvecArgs; panels of R rows
  std::size_t first_panel, panels_per_table;
  const std::uint16_t* block_scales;  ///< (panels, blocks, 16) float16
  const std::uint8_t* block_zeros;    ///< the same shape, or null: taken care of by Int8Tiles::starts
  Int8Tiles x;
  float* sums;  ///< (tiles, tokens of a tile, panels, 16): what Int8Matvec gives for each token
};

/// What Int8Matvec computes, for many tokens: codes become bytes once, 512 inputs at a time, for all of them. The same
/// integers, and the same order of float32 sums where R = 16: there the same bits.
using Int8Matmul = void (*)(const Int8MatmulArgs&);

/// By kept width and kind, as Int8MatvecTable.
struct Int8MatmulTable {
  Int8Matmul by_width[6][3];
  int less[6][3];           ///< products are of (byte - less): part of Int8Tiles::starts
  std::size_t most_panels;  ///< at a time
  std::size_t tile_tokens;  ///< of Int8Tiles
};
extern const Int8MatmulTable kInt8MatmulScalar, kInt8MatmulAvx2, kInt8MatmulAvx512Vnni;

/// The kernels that go with active_int8_matvec().
const Int8MatmulTable& active_int8_matmul();

}  // namespace nibble::quant
