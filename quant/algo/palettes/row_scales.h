#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"

// One scale per output row of a weight: W'_ij = W_ij / s_i is what palettes are fitted to.
namespace nibble::quant {

enum class RowScale : std::uint8_t {
  kStd,     ///< standard deviation of the row around its mean, n - 1 in the denominator
  kAbsmax,  ///< max |w|
};

/// Scales (out), positive, each rounded to float16 before anything is divided by it; 0 for a row of zeros.
///
/// A row that hardly varies around a mean other than 0 (deviation below 1/64 of it; so too a single column) would put
/// its values far outside everybody else's palette: it gets its absmax instead. A scale that would round to 0 is the
/// smallest float16 (2^-24), which costs nothing: codes are chosen after rounding.
///
/// Throws NumericalError naming the row: a NaN or infinite weight, a scale beyond float16.
[[nodiscard]] std::vector<float> row_scales(MatrixView<const float> w, RowScale rule);

/// The published sign rule, (out) of true for rows to be scaled by -s: fit `centroids` values to the row alone,
/// weighted with its sensitivities (empty view: ones), and flip it where |least centroid| > largest centroid. Rows then
/// lean the same way, and one lopsided palette suits them all. Source: the published
/// whole-tensor method (docs/results/published.md). Cost: one exact k-means per row. Rows run on all threads.
[[nodiscard]] std::vector<bool> rows_leaning_down(MatrixView<const float> w, MatrixView<const float> weights,
                                                  std::size_t centroids);

/// The scale that is best for given palette values, argmin_s sum_j f_j (w_j - s v_j)² = sum f w v / sum f v², rounded
/// to float16; `previous` where the denominator is 0 or the result is not a usable scale (0, not finite). `weights`
/// empty: ones.
[[nodiscard]] float least_squares_scale(std::span<const float> w, std::span<const float> weights,
                                        std::span<const float> values, float previous);

}  // namespace nibble::quant
