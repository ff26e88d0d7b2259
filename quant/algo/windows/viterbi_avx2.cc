#include <immintrin.h>

#include "core/simd/floats_avx2.h"
#include "quant/algo/windows/viterbi_kernels.h"
#include "quant/algo/windows/viterbi_simd.h"

namespace nibble::quant::viterbi_kernels {
namespace {

struct Avx2 : simd::Floats256 {
  using Mask = __m256;

  static F minimum(F a, F b) { return _mm256_min_ps(a, b); }
  static Mask less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static Mask select(Mask mask, Mask a, Mask b) { return _mm256_blendv_ps(b, a, mask); }
  static std::uint8_t bits(Mask mask) { return static_cast<std::uint8_t>(_mm256_movemask_ps(mask)); }
  // Halves change places first: on some processors a permutation of quarters takes twice as long.
  static F first_halves(F a, F b) { return _mm256_permute2f128_ps(a, b, 0x20); }
  static F second_halves(F a, F b) { return _mm256_permute2f128_ps(a, b, 0x31); }
  static F even(F a, F b) { return _mm256_shuffle_ps(first_halves(a, b), second_halves(a, b), 0x88); }
  static F odd(F a, F b) { return _mm256_shuffle_ps(first_halves(a, b), second_halves(a, b), 0xDD); }
  // Both halves of four vectors, as matrices of 4 by 4.
  static void transpose(F* x) {
    const F a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
    const F c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
    x[0] = _mm256_shuffle_ps(a, c, 0x44);
    x[1] = _mm256_shuffle_ps(a, c, 0xEE);
    x[2] = _mm256_shuffle_ps(b, d, 0x44);
    x[3] = _mm256_shuffle_ps(b, d, 0xEE);
  }
  template <unsigned n, unsigned m>
  requires(m == 4 && (n == 4 || n == 8)) static void deinterleave(F* x) {
    if constexpr (n == 4) {
      const F side_by_side[4] = {first_halves(x[0], x[2]), second_halves(x[0], x[2]), first_halves(x[1], x[3]),
                                 second_halves(x[1], x[3])};
      for (unsigned j = 0; j < 4; ++j) x[j] = side_by_side[j];
      transpose(x);
    } else {
      transpose(x);
      for (unsigned j = 4; j-- > 0;) {
        x[j + 4] = second_halves(x[j], x[j]);
        x[j] = first_halves(x[j], x[j]);
      }
    }
  }
  template <unsigned n>
  static F strided(F a, unsigned b) {
    const __m256i lanes = _mm256_setr_epi32(0, n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n, 7 * n);  // taken modulo 8
    return _mm256_permutevar8x32_ps(a, _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(b))));
  }
};

// Half as wide, for four groups.
struct Avx {
  using F = __m128;
  using Mask = __m128;
  static constexpr unsigned kWidth = 4;

  static F load(const float* p) { return _mm_loadu_ps(p); }
  static void store(float* p, F a) { _mm_storeu_ps(p, a); }
  static F set(float a) { return _mm_set1_ps(a); }
  static F add(F a, F b) { return _mm_add_ps(a, b); }
  static F sub(F a, F b) { return _mm_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm_mul_ps(a, b); }
  static F minimum(F a, F b) { return _mm_min_ps(a, b); }
  static Mask less(F a, F b) { return _mm_cmp_ps(a, b, _CMP_LT_OQ); }
  static Mask select(Mask mask, Mask a, Mask b) { return _mm_blendv_ps(b, a, mask); }
  static std::uint8_t bits(Mask mask) { return static_cast<std::uint8_t>(_mm_movemask_ps(mask)); }
  template <unsigned n>
  static F strided(F a, unsigned b) {
    const __m128i lanes = _mm_setr_epi32(0, n, 2 * n, 3 * n);  // taken modulo 4
    return _mm_permutevar_ps(a, _mm_add_epi32(lanes, _mm_set1_epi32(static_cast<int>(b))));
  }
};

}  // namespace

void forward_avx2(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs) {
  if (trellis.window_bits - trellis.bits == 2)
    return forward_any<Avx, 2, 2>(trellis, targets, factors, rows, start, decisions, costs);
  forward_any<Avx2, 3>(trellis, targets, factors, rows, start, decisions, costs);
}

}  // namespace nibble::quant::viterbi_kernels
