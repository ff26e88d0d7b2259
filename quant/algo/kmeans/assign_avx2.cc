#include <immintrin.h>

#include "quant/algo/kmeans/assign_kernels.h"

namespace nibble::quant::assign_kernels {
namespace {

// Binary search in all lanes: where bounds[index + half - 1] < x, index += half. The first steps look into registers:
// every 2^(Levels - 4)th bound, 16 at most, is all they need. Gathers alone took 7 times as long (16 entries, Zen 4).
template <unsigned Levels>
void count_below(const float* x, std::size_t count, const float* bounds, std::uint8_t* codes) {
  constexpr unsigned kFine = Levels > 4 ? Levels - 4 : 0, kCoarse = Levels - kFine;
  float coarse[16];
  for (unsigned i = 0; i < 16; ++i) coarse[i] = i < 1u << kCoarse ? bounds[((i + 1) << kFine) - 1] : bounds[0];
  const __m256 low = _mm256_loadu_ps(coarse), high = _mm256_loadu_ps(coarse + 8);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(x + i);
    __m256i index = _mm256_setzero_si256();
    const auto step = [&](__m256 bound, int half) {
      const __m256i above = _mm256_castps_si256(_mm256_cmp_ps(bound, value, _CMP_LT_OQ));
      index = _mm256_add_epi32(index, _mm256_and_si256(above, _mm256_set1_epi32(half)));
    };
#pragma GCC unroll 8
    for (int half = 1 << kCoarse >> 1; half > 0; half /= 2) {
      const __m256i at = _mm256_add_epi32(index, _mm256_set1_epi32(half - 1));
      __m256 bound = _mm256_permutevar8x32_ps(low, at);
      if constexpr (kCoarse == 4)  // bit 3, moved to the sign, chooses
        bound =
            _mm256_blendv_ps(bound, _mm256_permutevar8x32_ps(high, at), _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
      step(bound, half);
    }
    index = _mm256_slli_epi32(index, kFine);
#pragma GCC unroll 8
    for (int half = 1 << kFine >> 1; half > 0; half /= 2) {
      const __m256i at = _mm256_add_epi32(index, _mm256_set1_epi32(half - 1));
      step(_mm256_i32gather_ps(bounds, at, 4), half);
    }
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(index), _mm256_extracti128_si256(index, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + i), _mm_packus_epi16(words, words));
  }
  count_below_scalar(x + i, count - i, bounds, Levels, codes + i);
}

}  // namespace

void count_below_avx2(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes) {
  constexpr decltype(&count_below<1>) kByLevels[]{count_below<1>, count_below<2>, count_below<3>, count_below<4>,
                                                  count_below<5>, count_below<6>, count_below<7>, count_below<8>};
  kByLevels[levels - 1](x, count, bounds, codes);
}

}  // namespace nibble::quant::assign_kernels
