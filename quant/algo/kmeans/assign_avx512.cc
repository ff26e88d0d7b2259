#include <immintrin.h>

#include "quant/algo/kmeans/assign_kernels.h"

namespace nibble::quant::assign_kernels {
namespace {

__mmask16 tail_mask(std::size_t remaining) {
  return static_cast<__mmask16>(remaining >= 16 ? 0xFFFFu : (1u << remaining) - 1u);
}

// Binary search in all lanes: where bounds[index + half - 1] < x, index += half. The first steps look into registers:
// every 2^(Levels - 5)th bound, 32 at most, is all they need.
template <unsigned Levels>
void count_below(const float* x, std::size_t count, const float* bounds, std::uint8_t* codes) {
  constexpr unsigned kFine = Levels > 5 ? Levels - 5 : 0, kCoarse = Levels - kFine;
  alignas(64) float coarse[32];
  for (unsigned i = 0; i < 32; ++i) coarse[i] = i < 1u << kCoarse ? bounds[((i + 1) << kFine) - 1] : bounds[0];
  const __m512 low = _mm512_load_ps(coarse), high = _mm512_load_ps(coarse + 16);
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
    __m512i index = _mm512_setzero_si512();
    const auto step = [&](__m512 bound, int half) {
      const __mmask16 above = _mm512_cmp_ps_mask(bound, value, _CMP_LT_OQ);
      index = _mm512_mask_add_epi32(index, above, index, _mm512_set1_epi32(half));
    };
#pragma GCC unroll 8
    for (int half = 1 << kCoarse >> 1; half > 0; half /= 2) {
      const __m512i at = _mm512_add_epi32(index, _mm512_set1_epi32(half - 1));
      step(kCoarse <= 4 ? _mm512_permutexvar_ps(at, low) : _mm512_permutex2var_ps(low, at, high), half);
    }
    index = _mm512_slli_epi32(index, kFine);
#pragma GCC unroll 8
    for (int half = 1 << kFine >> 1; half > 0; half /= 2) {
      const __m512i at = _mm512_add_epi32(index, _mm512_set1_epi32(half - 1));
      step(_mm512_i32gather_ps(at, bounds, 4), half);
    }
    _mm512_mask_cvtepi32_storeu_epi8(codes + i, mask, index);
  }
}

}  // namespace

void count_below_avx512(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes) {
  constexpr decltype(&count_below<1>) kByLevels[]{count_below<1>, count_below<2>, count_below<3>, count_below<4>,
                                                  count_below<5>, count_below<6>, count_below<7>, count_below<8>};
  kByLevels[levels - 1](x, count, bounds, codes);
}

}  // namespace nibble::quant::assign_kernels
