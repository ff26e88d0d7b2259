#include <immintrin.h>

#include "quant/algo/assign_kernels.h"

namespace nibble::quant::assign_kernels {
namespace {

__mmask16 tail_mask(std::size_t remaining) {
  return static_cast<__mmask16>(remaining >= 16 ? 0xFFFFu : (1u << remaining) - 1u);
}

// One step of the binary search in all lanes: where bounds[index + half - 1] < x, index += half.
template <class Look>
__m512i search(__m512 x, unsigned levels, const Look& look) {
  __m512i index = _mm512_setzero_si512();
  for (int half = 1 << levels >> 1; half > 0; half /= 2) {
    const __m512 bound = look(_mm512_add_epi32(index, _mm512_set1_epi32(half - 1)));
    const __mmask16 above = _mm512_cmp_ps_mask(bound, x, _CMP_LT_OQ);
    index = _mm512_mask_add_epi32(index, above, index, _mm512_set1_epi32(half));
  }
  return index;
}

template <class Look>
void count_below(const float* x, std::size_t count, unsigned levels, std::uint8_t* codes, const Look& look) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m512i index = search(_mm512_maskz_loadu_ps(mask, x + i), levels, look);
    _mm512_mask_cvtepi32_storeu_epi8(codes + i, mask, index);
  }
}

}  // namespace

void count_below_avx512(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes) {
  if (levels <= 4) {  // all bounds in one register
    const __mmask16 mask = tail_mask(std::size_t{1} << levels);
    const __m512 table = _mm512_maskz_loadu_ps(mask, bounds);
    count_below(x, count, levels, codes, [&](__m512i index) { return _mm512_permutexvar_ps(index, table); });
  } else {
    count_below(x, count, levels, codes, [&](__m512i index) { return _mm512_i32gather_ps(index, bounds, 4); });
  }
}

}  // namespace nibble::quant::assign_kernels
