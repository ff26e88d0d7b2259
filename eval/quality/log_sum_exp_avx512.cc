#include <immintrin.h>

#include "eval/quality/log_sum_exp_kernels.h"

namespace nibble::eval::kernels {
namespace {

// exp(x) for x <= 0: x = n ln 2 + r, |r| <= ln(2) / 2; the Taylor series to r^11 is off by r^12 / 12! < 1e-14.
__m512d exp_of(__m512d x) {
  const __m512d lowest = _mm512_set1_pd(-1000.0);  // exp is 0 in double; keeps -inf out of the reduction
  x = _mm512_max_pd(lowest, x);                    // of a NaN the second operand comes through
  const __m512d n = _mm512_roundscale_pd(_mm512_mul_pd(x, _mm512_set1_pd(0x1.71547652b82fep+0)),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.62e42fefa38p-1), x);  // ln 2 in two pieces
  r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.ef35793c7673p-45), r);
  __m512d p = _mm512_set1_pd(1.0 / 39916800.0);
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 3628800.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 362880.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 40320.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 5040.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 720.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 120.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 24.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0 / 6.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(0.5));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0));
  p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(1.0));
  return _mm512_scalef_pd(p, n);
}

// 16 values, those past the end as -inf: they change neither the maximum nor the sum.
__m512 load(const float* values, std::size_t left) {
  if (left >= 16) return _mm512_loadu_ps(values);
  const __mmask16 mask = static_cast<__mmask16>((1u << left) - 1u);
  return _mm512_mask_loadu_ps(_mm512_set1_ps(-__builtin_inff()), mask, values);
}

}  // namespace

void max_and_sum_exp_avx512(const float* values, std::size_t count, float* max, double* sum) {
  __m512 largest = _mm512_set1_ps(-__builtin_inff());
  for (std::size_t i = 0; i < count; i += 16) largest = _mm512_max_ps(load(values + i, count - i), largest);
  *max = _mm512_reduce_max_ps(largest);

  const __m512d shift = _mm512_set1_pd(static_cast<double>(*max));
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512 x = load(values + i, count - i);
    const __m512d x_low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d x_high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    low = _mm512_add_pd(low, exp_of(_mm512_sub_pd(x_low, shift)));
    high = _mm512_add_pd(high, exp_of(_mm512_sub_pd(x_high, shift)));
  }
  *sum = _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

}  // namespace nibble::eval::kernels
