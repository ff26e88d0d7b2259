#include <immintrin.h>

#include "core/simd/floats_avx512.h"
#include "model/transformer/row_kernels_simd.h"

namespace nibble::model::row_kernels {
namespace {

struct Vector512 : simd::Floats512 {
  struct Sum {
    __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  };
  static F min(F a, F b) { return _mm512_min_ps(b, a); }  // a NaN in `a` stays: the second operand wins
  static F max(F a, F b) { return _mm512_max_ps(b, a); }
  static F scale(F p, F n) {  // numbers below the normal ones slow what multiplies them
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, set(-126.0f), _CMP_NLT_UQ), p, n);
  }
  static F greater(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
  }
  static F keep(F x, std::size_t count) { return _mm512_maskz_mov_ps(first(count), x); }
  static void accumulate(Sum& sum, F x) {
    sum.low = add(sum.low, low(x));
    sum.high = add(sum.high, high(x));
  }
  static double total(const Sum& sum) { return _mm512_reduce_add_pd(_mm512_add_pd(sum.low, sum.high)); }
  static float largest(F x) { return _mm512_reduce_max_ps(x); }
};

}  // namespace

const Table kAvx512 = Kernels<Vector512>::kTable;

}  // namespace nibble::model::row_kernels
