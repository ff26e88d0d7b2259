#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/kmeans/palette.h"

namespace nibble::quant {

/// The best palette of every group of rows, as PaletteFitter::fit() has it: entries not rounded. The last group may be
/// smaller; group_rows = 0: all rows are one. `weights` (out, in), or an empty view for ones.
/// Throws as palettize(). Threads: groups run on all threads; results do not depend on their number.
[[nodiscard]] std::vector<Palette> fit_palettes(MatrixView<const float> w, MatrixView<const float> weights,
                                                std::size_t group_rows, const PaletteOptions& options);

/// Settings of palettize().
struct PalettizeOptions {
  unsigned bits = 4;                  ///< 1 to 8: palettes of 2^bits entries
  std::size_t group_rows = 0;         ///< output rows that share one palette; 0 = all (whole tensor), 1 = channel
  DType palette_dtype = DType::kF16;  ///< kF16, kF32 or kI8: what round_palette() makes of the entries
  double gap = 0.0;                   ///< as PaletteOptions::gap
};

/// A weight as palettes and codes: value (i, j) = palettes(i / group_rows, codes(i, j)).
struct Palettization {
  Matrix<float> palettes;       ///< (groups, 2^bits), rows ascending, every entry exact in palette_dtype
  Matrix<std::uint8_t> codes;   ///< (out, in), one byte each
  double cost = 0.0;            ///< sum of weight · error² with these palettes and codes
  double optimality_gap = 0.0;  ///< certified: 1 - (sum of the groups' lower bounds) / (sum of costs before rounding)
  double fitted_cost = 0.0;     ///< that sum of costs
};

/// Fits one palette per group of rows (the last group may be smaller), rounds it to `palette_dtype` and
/// then assigns every weight its nearest rounded entry. `weights` (out, in), or an empty view for ones.
///
/// Throws InvalidArgument: bits, dtype or shapes out of range, negative weights; NumericalError: a NaN or infinite
/// value, or a palette entry beyond float16 (each with row and column or group).
/// Threads: groups run on all threads; results do not depend on their number.
[[nodiscard]] Palettization palettize(MatrixView<const float> w, MatrixView<const float> weights,
                                      const PalettizeOptions& options);

/// A palette that all of a weight shares, as palettize() with group_rows = 0 has it.
struct SharedPalette {
  std::vector<float> entries;   ///< (2^bits), ascending, every entry exact in palette_dtype
  double optimality_gap = 0.0;  ///< as in Palettization
  double fitted_cost = 0.0;     ///< as in Palettization
};

/// The same entries, to the bit, for values that are not held: PaletteFitter::fit() and rounding. Throws as
/// palettize(), but values must be finite.
[[nodiscard]] SharedPalette fit_shared_palette(const WeightedValues& values, const PalettizeOptions& options);

}  // namespace nibble::quant
