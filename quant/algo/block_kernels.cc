#include "quant/algo/block_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/isa.h"

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
#if NIBBLE_HAVE_X86_AVX512
  if (active_isa() >= Isa::kAvx512) return {block_extremes_avx512, round_row_avx512};
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (active_isa() >= Isa::kAvx2) return {block_extremes_avx2, round_row_avx2};
#endif
  return {block_extremes_scalar, round_row_scalar};
}

}  // namespace nibble::quant::block_kernels
