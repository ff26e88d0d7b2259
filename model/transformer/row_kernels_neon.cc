#include <arm_neon.h>

#include <cstdint>

#include "model/transformer/row_kernels_simd.h"

namespace nibble::model::row_kernels {
namespace {

struct Vector128 {
  using F = float32x4_t;
  struct Sum {
    float64x2_t low = vdupq_n_f64(0.0), high = vdupq_n_f64(0.0);
  };
  static constexpr std::size_t kWidth = 4;

  // All ones in the first `count` lanes.
  static uint32x4_t first(std::size_t count) {
    constexpr std::uint32_t kLanes[kWidth] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(kLanes), vdupq_n_u32(static_cast<std::uint32_t>(count)));
  }
  static F load(const float* p, std::size_t count) {
    if (count >= kWidth) return vld1q_f32(p);
    float padded[kWidth] = {};
    for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
    return vld1q_f32(padded);
  }
  static void store(float* p, std::size_t count, F x) {
    if (count >= kWidth) return vst1q_f32(p, x);
    float all[kWidth];
    vst1q_f32(all, x);
    for (std::size_t i = 0; i < count; ++i) p[i] = all[i];
  }
  static F set(float x) { return vdupq_n_f32(x); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(b, a), b, a); }  // a NaN in `a` stays
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(b, a), b, a); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F fnma(F a, F b, F c) { return vfmsq_f32(c, a, b); }
  static F round(F x) { return vrndnq_f32(x); }
  // 2^n in two factors: n = 128 has no exponent field of its own. Below 2^-126 the result is 0.
  static F scale(F p, F n) {
    const int32x4_t whole = vcvtnq_s32_f32(n);
    const int32x4_t half = vshrq_n_s32(whole, 1), rest = vsubq_s32(whole, half), bias = vdupq_n_s32(127);
    const F a = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    const F b = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    const uint32x4_t too_small = vcltq_f32(n, vdupq_n_f32(-126.0f));  // false for NaN, which is to stay
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(vmulq_f32(vmulq_f32(p, a), b)), too_small));
  }
  static F greater(F a, F b, F yes, F no) { return vbslq_f32(vcgtq_f32(a, b), yes, no); }
  static F keep(F x, std::size_t count) {
    return count >= kWidth ? x : vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), first(count)));
  }
  static void accumulate(Sum& sum, F x) {
    sum.low = vaddq_f64(sum.low, vcvt_f64_f32(vget_low_f32(x)));
    sum.high = vaddq_f64(sum.high, vcvt_high_f64_f32(x));
  }
  static double total(const Sum& sum) { return vaddvq_f64(vaddq_f64(sum.low, sum.high)); }
  static float largest(F x) {
    float lanes[kWidth];
    vst1q_f32(lanes, x);
    float result = lanes[0];
    for (const float lane : lanes) result = lane > result ? lane : result;
    return result;
  }
};

}  // namespace

const Table kNeon = Kernels<Vector128>::kTable;

}  // namespace nibble::model::row_kernels
