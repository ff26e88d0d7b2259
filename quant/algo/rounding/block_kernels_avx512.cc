#include <immintrin.h>

#include "quant/algo/rounding/block_kernels.h"

namespace nibble::quant::block_kernels {
namespace {

__mmask16 tail_mask(std::size_t remaining) {
  return static_cast<__mmask16>(remaining >= 16 ? 0xFFFFu : (1u << remaining) - 1u);
}
std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

}  // namespace

bool block_extremes_avx512(const float* row, std::size_t count, std::size_t block, float* low, float* high) {
  constexpr int kNotFinite = 0x01 | 0x08 | 0x10 | 0x80;  // quiet NaN, both infinities, signalling NaN
  unsigned bad = 0;
  for (std::size_t begin = 0; begin < count; begin += block, ++low, ++high) {
    const std::size_t end = least(begin + block, count);
    __m512 smallest = _mm512_set1_ps(row[begin]), largest = smallest;
    std::size_t j = begin;
    for (; j + 16 <= end; j += 16) {
      const __m512 value = _mm512_loadu_ps(row + j);
      bad |= _mm512_fpclass_ps_mask(value, kNotFinite);
      smallest = _mm512_min_ps(smallest, value);
      largest = _mm512_max_ps(largest, value);
    }
    if (j < end) {
      const __mmask16 mask = tail_mask(end - j);
      const __m512 value = _mm512_maskz_loadu_ps(mask, row + j);
      bad |= _mm512_fpclass_ps_mask(value, kNotFinite);
      smallest = _mm512_mask_min_ps(smallest, mask, smallest, value);
      largest = _mm512_mask_max_ps(largest, mask, largest, value);
    }
    // Both at once: the largest of [values, -values].
    const __m512 none = _mm512_setzero_ps(), opposite = _mm512_sub_ps(none, smallest);
    __m512 both = _mm512_max_ps(_mm512_shuffle_f32x4(largest, opposite, _MM_SHUFFLE(1, 0, 1, 0)),
                                _mm512_shuffle_f32x4(largest, opposite, _MM_SHUFFLE(3, 2, 3, 2)));
    both = _mm512_max_ps(both, _mm512_permute_ps(both, _MM_SHUFFLE(1, 0, 3, 2)));
    both = _mm512_max_ps(both, _mm512_permute_ps(both, _MM_SHUFFLE(2, 3, 0, 1)));
    both = _mm512_max_ps(both, _mm512_shuffle_f32x4(both, both, _MM_SHUFFLE(2, 3, 0, 1)));
    *high = _mm512_cvtss_f32(both);
    *low = -_mm_cvtss_f32(_mm512_extractf32x4_ps(both, 2));
  }
  return bad == 0;
}

void round_row_avx512(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes) {
  const __m512 rounder = _mm512_set1_ps(0x1.8p23f);  // a float's lowest bits are the integer that was added to it
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    const std::size_t end = least(begin + block, count);
    const __m512 inverse = _mm512_set1_ps(*scales == 0.0f ? 0.0f : 1.0f / *scales);
    const __m512 lowest = _mm512_set1_ps(-*zeros), highest = _mm512_set1_ps(top - *zeros);
    const __m512i zero = _mm512_set1_epi32(static_cast<int>(*zeros));
    const auto codes_of = [&](__m512 value) {
      const __m512 steps = _mm512_mul_ps(value, inverse);
      const __m512 inside = _mm512_min_ps(_mm512_max_ps(steps, lowest), highest);
      const __m512i rounded = _mm512_castps_si512(_mm512_add_ps(inside, rounder));
      return _mm512_cvtepi32_epi8(_mm512_add_epi32(rounded, zero));
    };
    std::size_t j = begin;
    for (; j + 16 <= end; j += 16) {
      // This row is in the cache since block_extremes(); the next one comes meanwhile (past the matrix: no harm).
      _mm_prefetch(reinterpret_cast<const char*>(row + j + count), _MM_HINT_T0);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + j), codes_of(_mm512_loadu_ps(row + j)));
    }
    if (j < end) {
      const __mmask16 mask = tail_mask(end - j);
      _mm_mask_storeu_epi8(codes + j, mask, codes_of(_mm512_maskz_loadu_ps(mask, row + j)));
    }
  }
}

}  // namespace nibble::quant::block_kernels
