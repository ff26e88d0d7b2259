#include <immintrin.h>

#include "quant/algo/rounding/block_kernels.h"

namespace nibble::quant::block_kernels {
namespace {

std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

float reduce_min(__m256 v) {
  __m128 x = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_min_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_min_ss(x, _mm_movehdup_ps(x)));
}
float reduce_max(__m256 v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

}  // namespace

bool block_extremes_avx2(const float* row, std::size_t count, std::size_t block, float* low, float* high) {
  const __m256 zero = _mm256_setzero_ps();
  __m256 bad = zero;  // value · 0 is not a number for what is not finite
  bool good = true;
  for (std::size_t begin = 0; begin < count; begin += block, ++low, ++high) {
    const std::size_t end = least(begin + block, count);
    __m256 smallest = _mm256_set1_ps(row[begin]), largest = smallest;
    std::size_t j = begin;
    for (; j + 8 <= end; j += 8) {
      const __m256 value = _mm256_loadu_ps(row + j);
      bad = _mm256_or_ps(bad, _mm256_cmp_ps(_mm256_mul_ps(value, zero), zero, _CMP_NEQ_UQ));
      smallest = _mm256_min_ps(smallest, value);
      largest = _mm256_max_ps(largest, value);
    }
    *low = reduce_min(smallest);
    *high = reduce_max(largest);
    for (; j < end; ++j) {
      if (row[j] < *low) *low = row[j];
      if (row[j] > *high) *high = row[j];
      good = good && row[j] * 0.0f == 0.0f;
    }
  }
  return good && _mm256_movemask_ps(bad) == 0;
}

void round_row_avx2(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                    float top, std::uint8_t* codes) {
  const __m256 rounder = _mm256_set1_ps(0x1.8p23f);  // a float's lowest bits are the integer that was added to it
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    const std::size_t end = least(begin + block, count);
    const __m256 inverse = _mm256_set1_ps(*scales == 0.0f ? 0.0f : 1.0f / *scales);
    const __m256 lowest = _mm256_set1_ps(-*zeros), highest = _mm256_set1_ps(top - *zeros);
    const __m256i zero = _mm256_set1_epi32(static_cast<int>(*zeros)), low_byte = _mm256_set1_epi32(0xFF);
    std::size_t j = begin;
    for (; j + 8 <= end; j += 8) {
      const __m256 steps = _mm256_mul_ps(_mm256_loadu_ps(row + j), inverse);
      const __m256 inside = _mm256_min_ps(_mm256_max_ps(steps, lowest), highest);
      const __m256i rounded = _mm256_castps_si256(_mm256_add_ps(inside, rounder));
      const __m256i wide = _mm256_and_si256(_mm256_add_epi32(rounded, zero), low_byte);
      const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + j), _mm_packus_epi16(words, words));
    }
    round_row_scalar(row + j, end - j, block, scales, zeros, top, codes + j);
  }
}

}  // namespace nibble::quant::block_kernels
