#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

// Vectors of floats, and of doubles half as many, in NEON: floats_avx2.h says more. Only *_neon*.cc include this.
namespace nibble::simd {
namespace {

struct Floats128 {
  using F = float32x4_t;
  using D = float64x2_t;
  static constexpr std::size_t kWidth = 4;

  static uint32x4_t first(std::size_t count) {
    constexpr std::uint32_t kLanes[kWidth] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(kLanes), vdupq_n_u32(static_cast<std::uint32_t>(count)));
  }
  static F load(const float* p) { return vld1q_f32(p); }
  static F load(const float* p, std::size_t count) {
    if (count >= kWidth) return load(p);
    float padded[kWidth] = {};
    for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
    return load(padded);
  }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  static void store(float* p, std::size_t count, F x) {
    if (count >= kWidth) return store(p, x);
    float all[kWidth];
    store(all, x);
    for (std::size_t i = 0; i < count; ++i) p[i] = all[i];
  }
  static F zero() { return vdupq_n_f32(0.0f); }
  static F set(float x) { return vdupq_n_f32(x); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F fnma(F a, F b, F c) { return vfmsq_f32(c, a, b); }
  static F round(F x) { return vrndnq_f32(x); }
  static float largest(F x) {
    float lanes[kWidth];
    store(lanes, x);
    float result = lanes[0];
    for (const float lane : lanes) result = lane > result ? lane : result;
    return result;
  }

  static D low(F x) { return vcvt_f64_f32(vget_low_f32(x)); }
  static D high(F x) { return vcvt_high_f64_f32(x); }
  static D set(double x) { return vdupq_n_f64(x); }
  static D add(D a, D b) { return vaddq_f64(a, b); }
  static D sub(D a, D b) { return vsubq_f64(a, b); }
  static D mul(D a, D b) { return vmulq_f64(a, b); }
  static D fma(D a, D b, D c) { return vfmaq_f64(c, a, b); }
  static D fnma(D a, D b, D c) { return vfmsq_f64(c, a, b); }
  static D round(D x) { return vrndnq_f64(x); }
};

}  // namespace
}  // namespace nibble::simd
