#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/int8/int8_matvec.h"
#include "quant/kernels/int8/quantized_tiles.h"
#include "quant/kernels/windows/window_kernels.h"

namespace nibble::quant {

/// Instead of codes in panels of 16 rows: vectors of windows (byte_place()), whose lanes are rows further apart.
struct Int8MatmulWindows {
  WindowUnpack unpack;
  const std::uint8_t* codes;
  std::size_t panel_bytes;
  WindowLayout layout;
  WindowTables tables;
  std::size_t first;  ///< vector, 8 of each panel of windows
};

/// Up to `most_panels` panels of 16 rows of a packed weight (quant/kernels/packing/code_layout.h) and tiles of tokens.
struct Int8MatmulArgs {
  const std::uint8_t* codes;  ///< R = 16: (panels, units, unit_bytes); R = 1: (rows, units, unit_bytes)
  std::size_t panels, units, unit_bytes;
  std::size_t rows;            ///< of the weight from the first one on: what lanes beyond them get is not written
  const std::uint8_t* tables;  ///< as Int8MatvecArgs; panels of R rows
  std::size_t first_panel, panels_per_table;
  const std::uint16_t* block_scales;     ///< (panels, blocks, 16) float16
  const std::uint8_t* block_zeros;       ///< the same shape, or null: taken care of by Int8Tiles::starts
  const float *byte_step, *byte_lowest;  ///< palettes: (rows), as PackedWeight
  const Int8MatmulWindows* windows;      ///< or null
  Int8Tiles x;
  float* sums;  ///< room for (tiles, tokens of a tile, panels, 16) while it lasts, all 0; ends of lines are faster
  float* y;     ///< (x.tokens, y_stride): min(rows, 16 panels) products per token
  std::size_t y_stride;
};

/// For many tokens s_tr = what Int8Matvec computes, and blocks y = s, palettes y_tr = step_r s_tr + lowest_r total_t.
/// Codes become bytes once, 512 inputs at a time, for all tokens. The same integers, and the same order of float32 sums
/// where R = 16: there the same bits.
using Int8Matmul = void (*)(const Int8MatmulArgs&);

/// By kept width and kind, as Int8MatvecTable.
struct Int8MatmulTable {
  Int8Matmul by_width[6][kPackedKinds];
  Int8Matmul windows;         ///< whose `less` is that of shared palettes
  int less[6][kPackedKinds];  ///< products are of (byte - less): part of Int8Tiles::starts
  std::size_t most_panels;    ///< at a time
  Int8TileShape tile;
  const char* name;  ///< of the instruction set, or null: that of the Int8MatvecTable beside it
};
extern const Int8MatmulTable kInt8MatmulScalar, kInt8MatmulAvx2, kInt8MatmulAvx2Vnni, kInt8MatmulAvx512,
    kInt8MatmulAvx512Vnni, kInt8MatmulAvx512Vbmi, kInt8MatmulAmx, kInt8MatmulNeon, kInt8MatmulNeonDotprod,
    kInt8MatmulNeonI8mm;

/// The kernels that go with active_int8_matvec().
const Int8MatmulTable& active_int8_matmul();

}  // namespace nibble::quant
