#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"
#include "quant/algo/palettes/row_scales.h"

namespace nibble::quant {

/// Settings of palettize_windows().
struct WindowedPaletteOptions {
  unsigned bits = 2;         ///< from one window to the next: 1 to 4
  unsigned window_bits = 6;  ///< 4 to 10, more than `bits`: a palette of 2^window_bits entries
  DType palette_dtype = DType::kF16;
  std::optional<RowScale> scale{};   ///< of every row; none: ones
  std::size_t joint_iterations = 0;  ///< at most this many rounds of: scales, palette, codes
  std::size_t starts = 1;            ///< palettes tried, at least 1
  std::size_t rounds = 200;          ///< of annealing for each
  std::uint64_t seed = 0;
};

/// What palettize_windows() found.
struct WindowedPalettization {
  WindowedWeight weight;
  double cost = 0.0;            ///< equation (1) with what is stored
  std::vector<double> history;  ///< the cost before each joint round and after the last: never rises
};

/// One palette read through windows (quant/format/windowed_codes.h) for a weight:
///
///   E = Σ_ij F_ij (W_ij − s_i c[q_ij])²,   q_ij = the window of row i in the stream of input j            (1)
///
/// by k-means on windows: the best streams for the palette (WindowSearch), then c_q = Σ F s W / Σ F s² over the weights
/// of window q, in turns. It starts from quantiles of W / s in any order; for `rounds` rounds the means are overshot,
/// and moved at random by ever less; then plain rounds follow until one gains little. Palettes are fitted to some
/// inputs of a large weight (of more than 8192 rows: to stretches of 2048 from many inputs), then rounded to their
/// type, and codes chosen for all; joint rounds alternate scales in closed form with both, and are kept where E falls.
/// It is a local optimum; of several `starts` the best is kept.
///
/// w (out, in), finite; weights F (out, in), or an empty view for ones.
/// Throws InvalidArgument for widths or shapes that do not fit; NumericalError as round_palette() and row_scales().
/// Cost: `rounds` searches of 2^17 weights for each start, some of 2^19, and one or more of all. Memory: 10 bytes per
/// weight, 4 more with F.
/// Threads: inputs run on all; results do not depend on their number.
[[nodiscard]] WindowedPalettization palettize_windows(MatrixView<const float> w, MatrixView<const float> weights,
                                                      const WindowedPaletteOptions& options);

}  // namespace nibble::quant
