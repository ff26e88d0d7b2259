#include <immintrin.h>

#include "quant/algo/assign_kernels.h"

namespace nibble::quant::assign_kernels {

void count_below_avx2(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(x + i);
    __m256i index = _mm256_setzero_si256();
    for (int half = 1 << levels >> 1; half > 0; half /= 2) {
      const __m256i at = _mm256_add_epi32(index, _mm256_set1_epi32(half - 1));
      const __m256 above = _mm256_cmp_ps(_mm256_i32gather_ps(bounds, at, 4), value, _CMP_LT_OQ);
      index = _mm256_add_epi32(index, _mm256_and_si256(_mm256_castps_si256(above), _mm256_set1_epi32(half)));
    }
    alignas(32) std::int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), index);
    for (std::size_t lane = 0; lane < 8; ++lane) codes[i + lane] = static_cast<std::uint8_t>(lanes[lane]);
  }
  count_below_scalar(x + i, count - i, bounds, levels, codes + i);
}

}  // namespace nibble::quant::assign_kernels
