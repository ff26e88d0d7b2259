#include <immintrin.h>

#include "quant/algo/block_kernels.h"

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
    *low = _mm512_reduce_min_ps(smallest);
    *high = _mm512_reduce_max_ps(largest);
  }
  return bad == 0;
}

void round_row_avx512(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes) {
  const __m512 none = _mm512_setzero_ps(), most = _mm512_set1_ps(top);
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    const std::size_t end = least(begin + block, count);
    const __m512 scale = _mm512_set1_ps(*scales), zero = _mm512_set1_ps(*zeros);
    const auto divide = static_cast<__mmask16>(*scales == 0.0f ? 0u : 0xFFFFu);
    const auto codes_of = [&](__m512 value) {
      const __m512 quotient = _mm512_maskz_div_ps(divide, value, scale);
      const __m512 rounded = _mm512_roundscale_ps(quotient, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m512 code = _mm512_min_ps(_mm512_max_ps(_mm512_add_ps(rounded, zero), none), most);
      return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(code));
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
