#include "quant/algo/palettes/sparse_rounding.h"

#include <algorithm>

#include "core/error.h"
#include "core/matrix/dtype.h"

namespace nibble::quant {
namespace {

constexpr float kLargestF16 = 65504.0f;

}  // namespace

SparseRounding::SparseRounding(const ColumnRounding& inner, std::size_t cols, SparseValues& kept)
    : inner_(inner), kept_(kept), places_(cols) {
  const Outliers& at = kept.places;
  NIBBLE_REQUIRE(inner.adaptive_block() == 0 && kept.values.size() == at.columns.size(), InvalidArgument,
                 "{} values at {} places, or grids that adapt", kept.values.size(), at.columns.size());
  for (std::size_t row = 0; row + 1 < at.rows.size(); ++row)
    for (auto i = static_cast<std::size_t>(at.rows[row]); i < static_cast<std::size_t>(at.rows[row + 1]); ++i)
      places_.at(static_cast<std::size_t>(at.columns[i])).push_back({row, i});
}

std::span<const SparseRounding::Place> SparseRounding::places_of(std::size_t column, std::size_t first_row,
                                                                 std::size_t count) const {
  const auto& places = places_[column];
  const auto before = [](const Place& place, std::size_t row) { return place.row < row; };
  const auto begin = std::lower_bound(places.begin(), places.end(), first_row, before);
  return {begin, std::lower_bound(begin, places.end(), first_row + count, before)};
}

void SparseRounding::round(std::size_t column, std::size_t first_row, std::span<const float> values,
                           std::uint8_t* codes, float* decoded) const {
  inner_.round(column, first_row, values, codes, decoded);
  for (const Place& place : places_of(column, first_row, values.size())) {
    const std::size_t r = place.row - first_row;
    float dense = 0.0f;
    const float zero = 0.0f;
    inner_.round(column, place.row, {&zero, 1}, codes + r, &dense);
    decoded[r] = dense + round_to_f16(std::clamp(values[r] - dense, -kLargestF16, kLargestF16));
    kept_.values[place.index] = decoded[r];
  }
}

void SparseRounding::decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
                            float* decoded) const {
  inner_.decode(column, first_row, codes, decoded);
  for (const Place& place : places_of(column, first_row, codes.size()))
    decoded[place.row - first_row] = kept_.values[place.index];
}

}  // namespace nibble::quant
