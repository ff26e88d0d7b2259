#include <arm_neon.h>

#include "core/simd/floats_neon.h"
#include "eval/quality/log_sum_exp_kernels.h"
#include "eval/quality/log_sum_exp_simd.h"

namespace nibble::eval::kernels {
namespace {

struct Neon : simd::Floats128 {
  static constexpr double kLowest = -708.0;  // 2^n is a normal number down to here

  static F load(const float* values, std::size_t left) {
    if (left >= 4) return vld1q_f32(values);
    float padded[4];
    for (std::size_t i = 0; i < 4; ++i) padded[i] = i < left ? values[i] : -__builtin_inff();
    return vld1q_f32(padded);
  }
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

  static D at_least(D x, D lowest) { return vbslq_f64(vcltq_f64(x, lowest), lowest, x); }  // a NaN comes through
  static D scale(D p, D n, D x) {
    const int64x2_t exponent = vaddq_s64(vcvtnq_s64_f64(n), vdupq_n_s64(1023));
    const D power = vreinterpretq_f64_s64(vshlq_n_s64(exponent, 52)), scaled = vmulq_f64(p, power);
    return vbslq_f64(vcltq_f64(x, set(kLowest)), set(0.0), scaled);  // a NaN is not below
  }
  static D weighted(D weight, D x, D sum) {
    return vaddq_f64(sum, vbslq_f64(vceqq_f64(weight, set(0.0)), set(0.0), vmulq_f64(weight, x)));
  }
  static double total(D a) { return vaddvq_f64(a); }
};

}  // namespace

void max_and_sum_exp_neon(const float* values, std::size_t count, float* max, double* sum) {
  max_and_sum_exp<Neon>(values, count, max, sum);
}

void softmax_sums_neon(const float* p, const float* q, std::size_t count, SoftmaxSums* sums) {
  softmax_sums<Neon>(p, q, count, sums);
}

}  // namespace nibble::eval::kernels
