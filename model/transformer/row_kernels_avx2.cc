#include <immintrin.h>

#include "core/simd/floats_avx2.h"
#include "model/transformer/row_kernels_simd.h"

namespace nibble::model::row_kernels {
namespace {

struct Vector256 : simd::Floats256 {
  struct Sum {
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
  };
  static F min(F a, F b) { return _mm256_min_ps(b, a); }  // a NaN in `a` stays: the second operand wins
  static F max(F a, F b) { return _mm256_max_ps(b, a); }
  // 2^n in two factors: n = 128 has no exponent field of its own. Below 2^-126 the result is 0.
  static F scale(F p, F n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
    const __m256i bias = _mm256_set1_epi32(127);
    const F a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const F b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    const F normal = _mm256_cmp_ps(n, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ);  // true for NaN, which is to stay
    return _mm256_and_ps(normal, _mm256_mul_ps(_mm256_mul_ps(p, a), b));
  }
  static F greater(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
  static F keep(F x, std::size_t count) {
    return count >= kWidth ? x : _mm256_and_ps(x, _mm256_castsi256_ps(first(count)));
  }
  static void accumulate(Sum& sum, F x) {
    sum.low = add(sum.low, low(x));
    sum.high = add(sum.high, high(x));
  }
  static double total(const Sum& sum) {
    const __m256d both = _mm256_add_pd(sum.low, sum.high);
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(both), _mm256_extractf128_pd(both, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
  }
  static float largest(F x) {
    __m128 quad = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    quad = _mm_max_ps(quad, _mm_movehl_ps(quad, quad));
    return _mm_cvtss_f32(_mm_max_ss(quad, _mm_movehdup_ps(quad)));
  }
};

}  // namespace

const Table kAvx2 = Kernels<Vector256>::kTable;

}  // namespace nibble::model::row_kernels
