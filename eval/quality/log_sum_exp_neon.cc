#include <arm_neon.h>

#include "eval/quality/log_sum_exp_kernels.h"
#include "eval/quality/log_sum_exp_simd.h"

namespace nibble::eval::kernels {
namespace {

struct Neon {
  using F = float32x4_t;
  using D = float64x2_t;
  static constexpr std::size_t kHalf = 2;
  static constexpr double kLowest = -708.0;  // 2^n is a normal number down to here

  static F load(const float* values, std::size_t left) {
    if (left >= 4) return vld1q_f32(values);
    float padded[4];
    for (std::size_t i = 0; i < 4; ++i) padded[i] = i < left ? values[i] : -__builtin_inff();
    return vld1q_f32(padded);
  }
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static float largest(F a) {
    float lanes[4];
    vst1q_f32(lanes, a);
    float result = lanes[0];
    for (const float lane : lanes) result = lane > result ? lane : result;
    return result;
  }
  static D low(F a) { return vcvt_f64_f32(vget_low_f32(a)); }
  static D high(F a) { return vcvt_high_f64_f32(a); }

  static D set(double x) { return vdupq_n_f64(x); }
  static D add(D a, D b) { return vaddq_f64(a, b); }
  static D sub(D a, D b) { return vsubq_f64(a, b); }
  static D mul(D a, D b) { return vmulq_f64(a, b); }
  static D fma(D a, D b, D c) { return vfmaq_f64(c, a, b); }
  static D fnma(D a, D b, D c) { return vfmsq_f64(c, a, b); }
  static D at_least(D x, D lowest) { return vbslq_f64(vcltq_f64(x, lowest), lowest, x); }  // a NaN comes through
  static D round(D x) { return vrndnq_f64(x); }
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
