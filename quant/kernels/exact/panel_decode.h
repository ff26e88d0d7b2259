#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/packing/packed_kind.h"

namespace nibble::quant {

/// One panel of a packed weight, to be decoded.
struct PanelDecodeArgs {
  const std::uint8_t* codes;  ///< (units, unit_bytes)
  std::size_t units, unit_bytes, cols;
  const float* table;                 ///< palettes, and blocks of up to 4 bits
  const float* row_scale;             ///< (rows) or null; palettes
  const std::uint16_t* block_scales;  ///< (blocks, 16) float16
  const std::uint8_t* block_zeros;    ///< (blocks, 16) or null
  unsigned zero_of_table;
  std::size_t rows;    ///< of the panel, that are wanted: the first 1 … R
  float* destination;  ///< R = 16: (cols, stride), a column per row; R = 1: (cols)
  std::size_t stride;
};

/// The weights of a panel, with one rounding per operation as the format defines them (quantized_tensor.h); outliers
/// are the caller's. R = 16 writes them transposed, as the lanes hold them.
using PanelDecode = void (*)(const PanelDecodeArgs&);

/// Kernels of one instruction set by kept width and kind; null where there is none.
struct PanelDecodeTable {
  PanelDecode by_width[6][kPackedKinds];
};
extern const PanelDecodeTable kPanelDecodeScalar, kPanelDecodeAvx2, kPanelDecodeAvx512, kPanelDecodeNeon;

/// The kernel of the instruction set in force.
PanelDecode select_panel_decode(unsigned bits, PackedKind kind);

}  // namespace nibble::quant
