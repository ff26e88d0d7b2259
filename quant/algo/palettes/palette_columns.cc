#include "quant/algo/palettes/palette_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "quant/algo/kmeans/assign_kernels.h"

namespace nibble::quant {

PaletteRounding::PaletteRounding(MatrixView<const float> palettes, std::size_t group_rows,
                                 std::span<const float> scales)
    : palettes_(palettes), group_rows_(group_rows), scales_(scales) {
  const std::size_t k = palettes.cols();
  NIBBLE_REQUIRE(palettes.rows() >= 1 && k >= 1 && k <= 256, InvalidArgument,
                 "PaletteRounding: expected palettes of 1 to 256 entries, got ({}, {})", palettes.rows(), k);
  while (std::size_t{1} << levels_ < k) ++levels_;
  bounds_ = Matrix<float>(palettes.rows(), std::size_t{1} << levels_);
  for (std::size_t g = 0; g < palettes.rows(); ++g) {
    const auto entries = palettes.row(g);
    for (std::size_t c = 0; c < k; ++c)
      NIBBLE_REQUIRE(std::isfinite(entries[c]) && (c == 0 || entries[c - 1] <= entries[c]), InvalidArgument,
                     "PaletteRounding: entries must be finite and ascending; entry {} of palette {} is {}", c, g,
                     entries[c]);
    const auto bounds = bounds_.row(g);
    std::fill(bounds.begin(), bounds.end(), std::numeric_limits<float>::infinity());
    for (std::size_t c = 0; c + 1 < k && entries[c] < entries[k - 1]; ++c)
      bounds[c] = assign_kernels::boundary_between(entries[c], entries[c + 1]);
  }
}

void PaletteRounding::round(std::size_t /*column*/, std::size_t first_row, std::span<const float> values,
                            std::uint8_t* codes, float* decoded) const {
  for (std::size_t r = 0; r < values.size(); ++r) {
    const std::size_t group = group_of(first_row + r);
    const float scale = scale_of(first_row + r);
    const float value = scale == 0.0f ? 0.0f : values[r] / scale;
    const float* bounds = bounds_.row(group).data();
    std::size_t code = 0;
    for (std::size_t half = bounds_.cols() / 2; half > 0; half /= 2) code += bounds[code + half - 1] < value ? half : 0;
    codes[r] = static_cast<std::uint8_t>(code);
    decoded[r] = scale * palettes_(group, code);
  }
}

void PaletteRounding::decode(std::size_t /*column*/, std::size_t first_row, std::span<const std::uint8_t> codes,
                             float* decoded) const {
  for (std::size_t r = 0; r < codes.size(); ++r)
    decoded[r] = scale_of(first_row + r) * palettes_(group_of(first_row + r), codes[r]);
}

}  // namespace nibble::quant
