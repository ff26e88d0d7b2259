#include <immintrin.h>

#include "model/transformer/row_kernels_simd.h"

namespace nibble::model::row_kernels {
namespace {

// All ones in the first `count` of 8 lanes.
__m256i first(std::size_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count >= 8 ? 8 : static_cast<int>(count)), lanes);
}

struct Vector256 {
  using F = __m256;
  struct Sum {
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
  };
  static constexpr std::size_t kWidth = 8;

  static F load(const float* p, std::size_t count) {
    return count >= kWidth ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(count));
  }
  static void store(float* p, std::size_t count, F x) {
    if (count >= kWidth) {
      _mm256_storeu_ps(p, x);
    } else {
      _mm256_maskstore_ps(p, first(count), x);
    }
  }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(b, a); }  // a NaN in `a` stays: the second operand wins
  static F max(F a, F b) { return _mm256_max_ps(b, a); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
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
    sum.low = _mm256_add_pd(sum.low, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    sum.high = _mm256_add_pd(sum.high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
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
