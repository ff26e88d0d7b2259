#include <immintrin.h>

#include "eval/quality/log_sum_exp_kernels.h"

namespace nibble::eval::kernels {
namespace {

// exp(x) for x <= 0: x = n ln 2 + r, |r| <= ln(2) / 2; the Taylor series to r^11 is off by r^12 / 12! < 1e-14.
__m256d exp_of(__m256d x) {
  const __m256d lowest = _mm256_set1_pd(-708.0);               // below, 2^n is no normal number
  const __m256d keep = _mm256_cmp_pd(x, lowest, _CMP_NLT_UQ);  // true for NaN
  x = _mm256_max_pd(lowest, x);                                // of a NaN the second operand comes through
  const __m256d n = _mm256_round_pd(_mm256_mul_pd(x, _mm256_set1_pd(0x1.71547652b82fep+0)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256d r = _mm256_fnmadd_pd(n, _mm256_set1_pd(0x1.62e42fefa38p-1), x);  // ln 2 in two pieces
  r = _mm256_fnmadd_pd(n, _mm256_set1_pd(0x1.ef35793c7673p-45), r);
  __m256d p = _mm256_set1_pd(1.0 / 39916800.0);
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 3628800.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 362880.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 40320.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 5040.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 720.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 120.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 24.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0 / 6.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(0.5));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0));
  p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(1.0));
  const __m256i exponent = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n)), _mm256_set1_epi64x(1023));
  const __m256d power = _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52));
  return _mm256_and_pd(_mm256_mul_pd(p, power), keep);
}

// 8 values, those past the end as -inf: they change neither the maximum nor the sum.
__m256 load(const float* values, std::size_t left) {
  if (left >= 8) return _mm256_loadu_ps(values);
  float padded[8];
  for (std::size_t i = 0; i < 8; ++i) padded[i] = i < left ? values[i] : -__builtin_inff();
  return _mm256_loadu_ps(padded);
}

}  // namespace

void max_and_sum_exp_avx2(const float* values, std::size_t count, float* max, double* sum) {
  __m256 largest = _mm256_set1_ps(-__builtin_inff());
  for (std::size_t i = 0; i < count; i += 8) largest = _mm256_max_ps(load(values + i, count - i), largest);
  float lanes[8];
  _mm256_storeu_ps(lanes, largest);
  *max = lanes[0];
  for (std::size_t i = 1; i < 8; ++i) *max = lanes[i] > *max ? lanes[i] : *max;

  const __m256d shift = _mm256_set1_pd(static_cast<double>(*max));
  __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
  for (std::size_t i = 0; i < count; i += 8) {
    const __m256 x = load(values + i, count - i);
    const __m256d x_low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    const __m256d x_high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    low = _mm256_add_pd(low, exp_of(_mm256_sub_pd(x_low, shift)));
    high = _mm256_add_pd(high, exp_of(_mm256_sub_pd(x_high, shift)));
  }
  double sums[4];
  _mm256_storeu_pd(sums, _mm256_add_pd(low, high));
  *sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace nibble::eval::kernels
