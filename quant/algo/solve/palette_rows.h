#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/palettes/palette_weight.h"

// Of weights as palettes, scales and codes, row by row: for the updates of palettes and scales.
namespace nibble::quant {

/// Rows that share a palette: weight.group_rows, or all.
template <class Code>
std::size_t rows_per_group(const BasicPaletteWeight<Code>& weight) {
  return weight.group_rows == 0 ? weight.codes.rows() : weight.group_rows;
}

template <class Code>
double scale_of(const BasicPaletteWeight<Code>& weight, std::size_t row) {
  return weight.scales.empty() ? 1.0 : static_cast<double>(weight.scales[row]);
}

/// Calls use(column, value) for the sparse values of a row, columns ascending.
template <class Code, class Use>
void for_sparse(const BasicPaletteWeight<Code>& weight, std::size_t row, const Use& use) {
  if (weight.sparse.empty()) return;
  const Outliers& places = weight.sparse.places;
  for (auto at = static_cast<std::size_t>(places.rows[row]); at < static_cast<std::size_t>(places.rows[row + 1]); ++at)
    use(static_cast<std::size_t>(places.columns[at]), weight.sparse.values[at]);
}

/// Calls use(column, code) for the places of a row that have a code.
template <class Code, class Use>
void for_coded(const BasicPaletteWeight<Code>& weight, std::size_t row, const Use& use) {
  const auto codes = weight.codes.row(row);
  std::size_t next = 0;
  const auto upto = [&](std::size_t end) {
    for (; next < end; ++next) use(next, codes[next]);
  };
  for_sparse(weight, row, [&](std::size_t column, float) {
    upto(column);
    ++next;
  });
  upto(codes.size());
}

/// w − what is stored, of one row.
template <class Code>
void fill_errors(MatrixView<const float> w, const BasicPaletteWeight<Code>& weight, std::size_t row,
                 std::span<float> values) {
  const auto palette = weight.palettes.row(row / rows_per_group(weight));
  const float scale = weight.scales.empty() ? 1.0f : weight.scales[row];
  for (std::size_t j = 0; j < values.size(); ++j) values[j] = w(row, j) - scale * palette[weight.codes(row, j)];
  for_sparse(weight, row, [&](std::size_t j, float kept) { values[j] = w(row, j) - kept; });
}

/// Rounds a scale to float16; one that is not finite there, or 0, leaves `scale` as it is.
inline void store_scale(double value, float& scale) {
  const float rounded = round_to_f16(static_cast<float>(value));
  if (std::isfinite(rounded) && rounded != 0.0f) scale = rounded;
}

/// Throws InvalidArgument unless weight, stored weight and Hessians (no H_O: empty) fit each other.
template <class Code>
void require_palettes(MatrixView<const float> w, MatrixView<const float> h, const BasicPaletteWeight<Code>& weight,
                      MatrixView<const float> h_out) {
  NIBBLE_REQUIRE(h_out.empty() || (h_out.rows() == w.rows() && h_out.cols() == w.rows()), InvalidArgument,
                 "palettes under a Hessian: {} outputs and a Hessian of ({}, {}) outputs do not fit", w.rows(),
                 h_out.rows(), h_out.cols());
  const std::size_t rows = w.rows(), group_rows = std::max<std::size_t>(1, rows_per_group(weight));
  NIBBLE_REQUIRE(!w.empty() && h.rows() == w.cols() && h.cols() == w.cols() && weight.codes.rows() == rows &&
                     weight.codes.cols() == w.cols() && (weight.scales.empty() || weight.scales.size() == rows) &&
                     weight.palettes.rows() == (rows + group_rows - 1) / group_rows &&
                     (weight.sparse.empty() || weight.sparse.places.rows.size() == rows + 1),
                 InvalidArgument,
                 "palettes under a Hessian: weights ({}, {}), Hessian ({}, {}), codes ({}, {}), {} scales and {} "
                 "palettes of {} rows each do not fit",
                 rows, w.cols(), h.rows(), h.cols(), weight.codes.rows(), weight.codes.cols(), weight.scales.size(),
                 weight.palettes.rows(), group_rows);
  const std::size_t k = weight.palettes.cols();
  NIBBLE_REQUIRE(k >= 1 && std::all_of(weight.codes.values().begin(), weight.codes.values().end(),
                                       [&](Code code) { return code < k; }),
                 InvalidArgument, "palettes under a Hessian: a code is not below {}, the entries of a palette", k);
  NIBBLE_REQUIRE(
      (weight.window_step > 0) == (sizeof(Code) == 2) && (weight.window_step == 0 || weight.palettes.rows() == 1),
      InvalidArgument, "palettes under a Hessian: windows that go on by {} bits, of {} palettes", weight.window_step,
      weight.palettes.rows());
}

}  // namespace nibble::quant
