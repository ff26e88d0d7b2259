#include <immintrin.h>

#include "model/transformer/row_kernels_simd.h"

namespace nibble::model::row_kernels {
namespace {

__mmask16 first(std::size_t count) { return static_cast<__mmask16>(count >= 16 ? 0xFFFFu : (1u << count) - 1u); }

struct Vector512 {
  using F = __m512;
  struct Sum {
    __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  };
  static constexpr std::size_t kWidth = 16;

  static F load(const float* p, std::size_t count) { return _mm512_maskz_loadu_ps(first(count), p); }
  static void store(float* p, std::size_t count, F x) { _mm512_mask_storeu_ps(p, first(count), x); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(b, a); }  // a NaN in `a` stays: the second operand wins
  static F max(F a, F b) { return _mm512_max_ps(b, a); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F round(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F scale(F p, F n) { return _mm512_scalef_ps(p, n); }
  static F greater(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
  }
  static F keep(F x, std::size_t count) { return _mm512_maskz_mov_ps(first(count), x); }
  static void accumulate(Sum& sum, F x) {
    sum.low = _mm512_add_pd(sum.low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    sum.high = _mm512_add_pd(sum.high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  static double total(const Sum& sum) { return _mm512_reduce_add_pd(_mm512_add_pd(sum.low, sum.high)); }
  static float largest(F x) { return _mm512_reduce_max_ps(x); }
};

}  // namespace

const Table kAvx512 = Kernels<Vector512>::kTable;

}  // namespace nibble::model::row_kernels
