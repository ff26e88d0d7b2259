#include "quant/algo/window_rounding.h"

#include <bit>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/thread_pool.h"

namespace nibble::quant {

WindowRounding::WindowRounding(std::span<const float> palette, unsigned bits, std::size_t rows,
                               std::span<const float> scales, MatrixView<const float> weights)
    : palette_(palette),
      bits_(bits),
      window_bits_(static_cast<unsigned>(std::bit_width(palette.size()) - 1)),
      rows_(rows),
      scales_(scales),
      weights_(weights) {
  NIBBLE_REQUIRE(rows >= 1 && (scales.empty() || scales.size() == rows) && (weights.empty() || weights.rows() == rows),
                 InvalidArgument, "WindowRounding: {} rows, {} scales and weights ({}, {})", rows, scales.size(),
                 weights.rows(), weights.cols());
  for (std::size_t t = 0; t < thread_count(); ++t) searches_.emplace_back(palette, bits, window_bits_);
}

void WindowRounding::round(std::size_t column, std::size_t first_row, std::span<const float> values,
                           std::uint16_t* codes, float* decoded) const {
  NIBBLE_REQUIRE(first_row == 0 && values.size() == rows_, InvalidArgument,
                 "WindowRounding: rows [{}, {}) of {}: windows overlap, so a column is rounded whole", first_row,
                 first_row + values.size(), rows_);
  thread_local std::vector<float> targets, factors;
  targets.resize(rows_);
  factors.resize(rows_);
  for (std::size_t i = 0; i < rows_; ++i) {
    const float root = weights_.empty() ? 1.0f : std::sqrt(weights_(i, column));
    targets[i] = values[i] * root;
    factors[i] = scale_of(i) * root;
  }
  searches_[thread_index()].search(targets, factors, {codes, rows_});
  decode(column, 0, {codes, rows_}, decoded);
}

void WindowRounding::decode(std::size_t /*column*/, std::size_t first_row, std::span<const std::uint16_t> codes,
                            float* decoded) const {
  for (std::size_t r = 0; r < codes.size(); ++r) decoded[r] = scale_of(first_row + r) * palette_[codes[r]];
}

}  // namespace nibble::quant
