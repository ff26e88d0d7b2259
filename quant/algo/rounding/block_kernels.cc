#include "quant/algo/rounding/block_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/machine/isa.h"

namespace nibble::quant::block_kernels {

bool block_extremes_scalar(const float* row, std::size_t count, std::size_t block, float* low, float* high) {
  bool good = true;
  for (std::size_t begin = 0; begin < count; begin += block, ++low, ++high) {
    *low = *high = row[begin];
    for (std::size_t j = begin; j < std::min(begin + block, count); ++j) {
      *low = std::min(*low, row[j]);
      *high = std::max(*high, row[j]);
      good = good && std::isfinite(row[j]);
    }
  }
  return good;
}

void round_row_scalar(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes) {
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    const float inverse = *scales == 0.0f ? 0.0f : 1.0f / *scales;
    for (std::size_t j = begin; j < std::min(begin + block, count); ++j)
      codes[j] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(row[j] * inverse) + *zeros, 0.0f, top));
  }
}

Kernels active() {
  return {choose_variant(block_extremes_scalar, NIBBLE_AVX2_VARIANT(block_extremes_avx2),
                         NIBBLE_AVX512_VARIANT(block_extremes_avx512), NIBBLE_NEON_VARIANT(block_extremes_neon)),
          choose_variant(round_row_scalar, NIBBLE_AVX2_VARIANT(round_row_avx2), NIBBLE_AVX512_VARIANT(round_row_avx512),
                         NIBBLE_NEON_VARIANT(round_row_neon))};
}

}  // namespace nibble::quant::block_kernels
