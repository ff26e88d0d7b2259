#include <arm_neon.h>

#include "model/transformer/cache/attention_kernels_simd.h"

namespace nibble::model::attention_kernels {
namespace {

struct Vector128 {
  using F = float32x4_t;
  static constexpr std::size_t kWidth = 4, kRows = 2;

  static F load(const float* p) { return vld1q_f32(p); }
  static F load(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static F load(const std::int8_t* p) {
    std::int32_t four = 0;
    __builtin_memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
  }
  template <class Stored>
  static F load(const Stored* p, std::size_t count) {
    Stored padded[kWidth] = {};
    for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
    return load(padded);
  }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  static void store(float* p, std::size_t count, F x) {
    float all[kWidth];
    vst1q_f32(all, x);
    for (std::size_t i = 0; i < count; ++i) p[i] = all[i];
  }
  static F zero() { return vdupq_n_f32(0.0f); }
  static F set(float x) { return vdupq_n_f32(x); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
};

}  // namespace

const Table kNeon = kTable<Vector128>;

}  // namespace nibble::model::attention_kernels
