#include <immintrin.h>

#include "core/simd/floats_avx512.h"
#include "quant/algo/windows/viterbi_kernels.h"
#include "quant/algo/windows/viterbi_simd.h"

namespace nibble::quant::viterbi_kernels {
namespace {

struct Avx512 : simd::Floats512 {
  using Mask = __mmask16;

  static F minimum(F a, F b) { return _mm512_min_ps(a, b); }
  static Mask less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask select(Mask mask, Mask a, Mask b) { return static_cast<Mask>((mask & a) | (~mask & b)); }
  static std::uint16_t bits(Mask mask) { return mask; }
  static F even(F a, F b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
  }
  static F odd(F a, F b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
  }
  template <unsigned n>
  static F strided(F a, unsigned b) {
    const __m512i lanes = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                             _mm512_set1_epi32(static_cast<int>(n)));  // taken modulo 16
    return _mm512_permutexvar_ps(_mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(b))), a);
  }
};

}  // namespace

void forward_avx512(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                    const float* start, std::uint8_t* decisions, float* costs) {
  forward_any<Avx512, 4>(trellis, targets, factors, rows, start, decisions, costs);
}

}  // namespace nibble::quant::viterbi_kernels
