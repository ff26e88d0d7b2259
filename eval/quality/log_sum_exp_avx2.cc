#include <immintrin.h>

#include "core/simd/floats_avx2.h"
#include "eval/quality/log_sum_exp_kernels.h"
#include "eval/quality/log_sum_exp_simd.h"

namespace nibble::eval::kernels {
namespace {

struct Avx2 : simd::Floats256 {
  static constexpr double kLowest = -708.0;  // 2^n is a normal number down to here

  static F load(const float* values, std::size_t left) {
    if (left >= 8) return _mm256_loadu_ps(values);
    float padded[8];
    for (std::size_t i = 0; i < 8; ++i) padded[i] = i < left ? values[i] : -__builtin_inff();
    return _mm256_loadu_ps(padded);
  }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static float largest(F a) {
    float lanes[8];
    _mm256_storeu_ps(lanes, a);
    float result = lanes[0];
    for (const float lane : lanes) result = lane > result ? lane : result;
    return result;
  }

  static D at_least(D x, D lowest) { return _mm256_max_pd(lowest, x); }  // of a NaN the second operand comes through
  static D scale(D p, D n, D x) {
    const __m256i exponent = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n)), _mm256_set1_epi64x(1023));
    const D power = _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52));
    return _mm256_and_pd(_mm256_mul_pd(p, power), _mm256_cmp_pd(x, set(kLowest), _CMP_NLT_UQ));  // true for a NaN
  }
  static D weighted(D weight, D x, D sum) {
    return _mm256_add_pd(sum, _mm256_and_pd(_mm256_mul_pd(weight, x), _mm256_cmp_pd(weight, set(0.0), _CMP_NEQ_UQ)));
  }
  static double total(D a) {
    double lanes[4];
    _mm256_storeu_pd(lanes, a);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
};

}  // namespace

void max_and_sum_exp_avx2(const float* values, std::size_t count, float* max, double* sum) {
  max_and_sum_exp<Avx2>(values, count, max, sum);
}

void softmax_sums_avx2(const float* p, const float* q, std::size_t count, SoftmaxSums* sums) {
  softmax_sums<Avx2>(p, q, count, sums);
}

}  // namespace nibble::eval::kernels
