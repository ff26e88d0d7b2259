#include <immintrin.h>

#include "quant/algo/windows/viterbi_kernels.h"
#include "quant/algo/windows/viterbi_simd.h"

namespace nibble::quant::viterbi_kernels {
namespace {

struct Avx2 {
  using F = __m256;
  using Bits = std::uint8_t;
  static constexpr unsigned kLanes = 8;

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  static F broadcast(float a) { return _mm256_set1_ps(a); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F subtract(F a, F b) { return _mm256_sub_ps(a, b); }
  static F multiply(F a, F b) { return _mm256_mul_ps(a, b); }
  static F minimum(F a, F b) { return _mm256_min_ps(a, b); }
  static Bits less(F a, F b) { return static_cast<Bits>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ))); }
  static F in_order(F a) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xD8)); }
  static F even(F a, F b) { return in_order(_mm256_shuffle_ps(a, b, 0x88)); }
  static F odd(F a, F b) { return in_order(_mm256_shuffle_ps(a, b, 0xDD)); }
  template <unsigned n>
  static F strided(F a, unsigned b) {
    const __m256i lanes = _mm256_setr_epi32(0, n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n, 7 * n);  // taken modulo 8
    return _mm256_permutevar8x32_ps(a, _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(b))));
  }
};

}  // namespace

void forward_avx2(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs) {
  forward_any<Avx2, 3>(trellis, targets, factors, rows, start, decisions, costs);
}

}  // namespace nibble::quant::viterbi_kernels
