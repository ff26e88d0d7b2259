#include <immintrin.h>

#include "quant/algo/rounding_kernels.h"

namespace nibble::quant::rounding_kernels {
namespace {

__mmask16 tail_mask(std::size_t remaining) {
  return static_cast<__mmask16>(remaining >= 16 ? 0xFFFFu : (1u << remaining) - 1u);
}
std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

}  // namespace

void block_extremes_avx512(const float* row, std::size_t count, std::size_t block, float* low, float* high) {
  for (std::size_t begin = 0; begin < count; begin += block, ++low, ++high) {
    const std::size_t end = least(begin + block, count);
    __m512 smallest = _mm512_set1_ps(row[begin]), largest = smallest;
    for (std::size_t j = begin; j < end; j += 16) {
      const __mmask16 mask = tail_mask(end - j);
      const __m512 value = _mm512_maskz_loadu_ps(mask, row + j);
      smallest = _mm512_mask_min_ps(smallest, mask, smallest, value);
      largest = _mm512_mask_max_ps(largest, mask, largest, value);
    }
    *low = _mm512_reduce_min_ps(smallest);
    *high = _mm512_reduce_max_ps(largest);
  }
}

void round_row_avx512(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes) {
  const __m512 none = _mm512_setzero_ps(), most = _mm512_set1_ps(top);
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    const std::size_t end = least(begin + block, count);
    const __m512 scale = _mm512_set1_ps(*scales), zero = _mm512_set1_ps(*zeros);
    const auto divide = static_cast<__mmask16>(*scales == 0.0f ? 0u : 0xFFFFu);
    for (std::size_t j = begin; j < end; j += 16) {
      const __mmask16 mask = tail_mask(end - j);
      const __m512 quotient = _mm512_maskz_div_ps(divide, _mm512_maskz_loadu_ps(mask, row + j), scale);
      const __m512 rounded = _mm512_roundscale_ps(quotient, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m512 code = _mm512_min_ps(_mm512_max_ps(_mm512_add_ps(rounded, zero), none), most);
      _mm512_mask_cvtepi32_storeu_epi8(codes + j, mask, _mm512_cvtps_epi32(code));
    }
  }
}

}  // namespace nibble::quant::rounding_kernels
