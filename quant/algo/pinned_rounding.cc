#include "quant/algo/pinned_rounding.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::quant {

PinnedRounding::PinnedRounding(const ColumnRounding& inner, MatrixView<const float> w, const Outliers& outliers)
    : inner_(inner), w_(w), rows_(w.cols()) {
  NIBBLE_REQUIRE(outliers.rows.size() == w.rows() + 1 && inner.adaptive_block() == 0, InvalidArgument,
                 "outliers of {} rows do not fit a weight of {}, or its grids adapt", outliers.rows.size(), w.rows());
  for (std::size_t row = 0; row < w.rows(); ++row)
    for (std::int32_t at = outliers.rows[row]; at < outliers.rows[row + 1]; ++at)
      rows_[static_cast<std::size_t>(outliers.columns[static_cast<std::size_t>(at)])].push_back(row);
}

std::span<const std::size_t> PinnedRounding::rows_of(std::size_t column, std::size_t first_row,
                                                     std::size_t count) const {
  const auto& rows = rows_[column];
  const auto begin = std::lower_bound(rows.begin(), rows.end(), first_row);
  return {begin, std::lower_bound(begin, rows.end(), first_row + count)};
}

void PinnedRounding::round(std::size_t column, std::size_t first_row, std::span<const float> values,
                           std::uint8_t* codes, float* decoded) const {
  inner_.round(column, first_row, values, codes, decoded);
  for (const std::size_t row : rows_of(column, first_row, values.size())) {
    const float zero = 0.0f;
    inner_.round(column, row, {&zero, 1}, codes + (row - first_row), decoded + (row - first_row));
    decoded[row - first_row] = w_(row, column);
  }
}

void PinnedRounding::decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
                            float* decoded) const {
  inner_.decode(column, first_row, codes, decoded);
  for (const std::size_t row : rows_of(column, first_row, codes.size())) decoded[row - first_row] = w_(row, column);
}

}  // namespace nibble::quant
