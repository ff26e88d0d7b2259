#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/outliers.h"

namespace nibble::quant {

/// A weight as palettes, row scales and codes: value (i, j) = scales[i] · palettes(i / group_rows, codes(i, j)), but
/// where it is kept beside them.
template <class Code>
struct BasicPaletteWeight {
  Matrix<float> palettes;      ///< (groups, k); rows ascending, except those of windows
  std::size_t group_rows = 0;  ///< rows that share a palette; 0 = all
  std::vector<float> scales;   ///< (out), or empty for ones
  Matrix<Code> codes;          ///< (out, in)
  /// Windows (quant/format/windowed_codes.h): bits from one to the next. They have one palette, in their own order.
  unsigned window_step = 0;
  /// Or empty; these places have no say in palettes and scales but for their errors. Windows have none.
  SparseValues sparse = {};
};

using PaletteWeight = BasicPaletteWeight<std::uint8_t>;
using WindowedWeight = BasicPaletteWeight<std::uint16_t>;  ///< codes are windows

}  // namespace nibble::quant
