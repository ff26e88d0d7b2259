#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/palettes/row_scales.h"

namespace nibble::quant {

/// How the sign of a row's scale is chosen: with it a lopsided palette serves rows that lean either way.
enum class ScaleSign : std::uint8_t {
  kPlain,   ///< all positive
  kFlip,    ///< the published rule, rows_leaning_down()
  kSearch,  ///< the cheaper sign for each row under the palette, alternating with the palette; from two starts
};

/// Settings of palettize_scaled().
struct ScaledPaletteOptions {
  PalettizeOptions palette;
  RowScale scale = RowScale::kStd;
  ScaleSign sign = ScaleSign::kPlain;
  /// True: palettes are fitted with weights F·s², which is the objective (1) in terms of W / s.
  /// False: with F as it is, as published; rows of small deviation then count for more than they should.
  bool objective = true;
  bool refit_scales = false;         ///< scales by least squares once codes are known, and codes once more
  std::size_t joint_iterations = 0;  ///< at most this many rounds of: scales, codes, palettes
};

/// A weight as scales, palettes and codes: value (i, j) = scales[i] · palettes(i / group_rows, codes(i, j)).
struct ScaledPalettization {
  std::vector<float> scales;    ///< (out), exact in float16; may be negative; 0 for rows of zeros
  Matrix<float> palettes;       ///< as Palettization
  Matrix<std::uint8_t> codes;   ///< (out, in)
  double cost = 0.0;            ///< equation (1)
  double optimality_gap = 0.0;  ///< Palettization::optimality_gap, for these scales
  std::vector<double> history;  ///< the cost before each joint round and after the last: never rises
  double fitted_cost = 0.0;     ///< Palettization::fitted_cost, without scales
};

/// Palettes for a weight whose rows are divided by scales of their own:
///
///   E = sum_ij F_ij (W_ij - s_i c[q_ij])²                                                              (1)
///
/// `weights` F (out, in), or an empty view for ones. Scales are rounded to float16 before palettes are fitted, palettes
/// before codes are chosen: what is stored is what was optimised.
///
/// The joint rounds alternate what has a closed form, s_i = sum_j F W c / sum_j F c² for each row with its codes, the
/// nearest codes, and the optimal palettes for W / s with weights F s²; each step is kept only where it lowers the cost
/// of the rounded values, so E never rises. They stop when a round gains less than a millionth.
///
/// Throws InvalidArgument (shapes, options), NumericalError (as row_scales() and palettize()).
/// Memory: 13 bytes per weight beside the caller's. Threads: rows and groups run on all; results do not depend on them.
[[nodiscard]] ScaledPalettization palettize_scaled(MatrixView<const float> w, MatrixView<const float> weights,
                                                   const ScaledPaletteOptions& options);

}  // namespace nibble::quant
