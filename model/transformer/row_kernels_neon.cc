#include <arm_neon.h>

#include "core/simd/floats_neon.h"
#include "model/transformer/row_kernels_simd.h"

namespace nibble::model::row_kernels {
namespace {

struct Vector128 : simd::Floats128 {
  struct Sum {
    float64x2_t low = vdupq_n_f64(0.0), high = vdupq_n_f64(0.0);
  };
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(b, a), b, a); }  // a NaN in `a` stays
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(b, a), b, a); }
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
    sum.low = add(sum.low, low(x));
    sum.high = add(sum.high, high(x));
  }
  static double total(const Sum& sum) { return vaddvq_f64(vaddq_f64(sum.low, sum.high)); }
};

}  // namespace

const Table kNeon = Kernels<Vector128>::kTable;

}  // namespace nibble::model::row_kernels
