#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

// The vector type of code_vectors.h and exact_matvec_simd.h in NEON: four registers. Only *_neon*.cc include this.
namespace nibble::quant {
namespace {

struct Vector4x128 {
  static constexpr std::size_t kChains = 1;  // of 4 registers; more would not be left for 4 tokens

  struct Bytes {
    uint8x16_t a, b, c, d;
  };
  struct F {
    float32x4_t a, b, c, d;
  };

  // What `operation` makes of each four lanes.
  template <class Result, class Operation, class... V>
  [[gnu::always_inline]] static inline Result each(const Operation& operation, const V&... v) {
    return {operation(v.a...), operation(v.b...), operation(v.c...), operation(v.d...)};
  }
  static uint32x4_t words(uint8x16_t v) { return vreinterpretq_u32_u8(v); }

  static Bytes load_bytes(const std::uint8_t* p) {
    return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)};
  }
  static void store_bytes(std::uint8_t* p, Bytes v) {
    vst1q_u8(p, v.a);
    vst1q_u8(p + 16, v.b);
    vst1q_u8(p + 32, v.c);
    vst1q_u8(p + 48, v.d);
  }
  static Bytes widen_bytes(const std::uint8_t* p) {
    const uint8x16_t all = vld1q_u8(p);
    const uint16x8_t low = vmovl_u8(vget_low_u8(all)), high = vmovl_high_u8(all);
    return {vreinterpretq_u8_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_u8_u32(vmovl_high_u16(low)),
            vreinterpretq_u8_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_u8_u32(vmovl_high_u16(high))};
  }
  template <int kShift>
  static Bytes srl(Bytes v) {
    return each<Bytes>([](uint8x16_t u) { return vreinterpretq_u8_u32(vshrq_n_u32(words(u), kShift)); }, v);
  }
  template <int kShift>
  static Bytes sll(Bytes v) {
    return each<Bytes>([](uint8x16_t u) { return vreinterpretq_u8_u32(vshlq_n_u32(words(u), kShift)); }, v);
  }
  template <int kMask>
  static Bytes merge(Bytes x, Bytes y) {
    return each<Bytes>([](uint8x16_t u, uint8x16_t v) { return vbslq_u8(vdupq_n_u8(kMask), u, v); }, x, y);
  }

  static F zero() { return set(0.0f); }
  static F set(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {v, v, v, v};
  }
  // Bytes need no alignment.
  static F load(const void* p) {
    return each<F>([](uint8x16_t u) { return vreinterpretq_f32_u8(u); },
                   load_bytes(static_cast<const std::uint8_t*>(p)));
  }
  static F add(F x, F y) {
    return each<F>([](float32x4_t u, float32x4_t v) { return vaddq_f32(u, v); }, x, y);
  }
  static F mul(F x, F y) {
    return each<F>([](float32x4_t u, float32x4_t v) { return vmulq_f32(u, v); }, x, y);
  }
  static F sub(F x, F y) {
    return each<F>([](float32x4_t u, float32x4_t v) { return vsubq_f32(u, v); }, x, y);
  }
  static F fma(F x, F y, F z) {
    return each<F>([](float32x4_t u, float32x4_t v, float32x4_t w) { return vfmaq_f32(w, u, v); }, x, y, z);
  }
  static F fnma(F x, F y, F z) {
    return each<F>([](float32x4_t u, float32x4_t v, float32x4_t w) { return vfmsq_f32(w, u, v); }, x, y, z);
  }
  static void store(float* p, F v) {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
  }
  static float sum(F v) { return vaddvq_f32(vaddq_f32(vaddq_f32(v.a, v.b), vaddq_f32(v.c, v.d))); }
  static F load_half(const void* p) {
    const auto* bytes = static_cast<const std::uint8_t*>(p);
    const float16x8_t low = vreinterpretq_f16_u8(vld1q_u8(bytes)), high = vreinterpretq_f16_u8(vld1q_u8(bytes + 16));
    return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
            vcvt_high_f32_f16(high)};
  }
  static F load_bfloat(const void* p) {
    const auto* bytes = static_cast<const std::uint8_t*>(p);
    const uint16x8_t low = vreinterpretq_u16_u8(vld1q_u8(bytes)), high = vreinterpretq_u16_u8(vld1q_u8(bytes + 16));
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)), vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
            vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
            vreinterpretq_f32_u32(vshll_high_n_u16(high, 16))};
  }
  static F load_small(const std::uint8_t* p) {
    return each<F>([](uint8x16_t u) { return vcvtq_f32_u32(words(u)); }, widen_bytes(p));
  }
  template <int kBits>
  static uint32x4_t low_bits_of_words(uint8x16_t v) {
    return vandq_u32(words(v), vdupq_n_u32((1u << kBits) - 1));
  }
  template <int kBits>
  static F integers(Bytes v) {
    return each<F>([](uint8x16_t u) { return vcvtq_f32_u32(low_bits_of_words<kBits>(u)); }, v);
  }

  // More than 16 entries: from the first-level cache.
  template <int kBits>
  struct Lookup {
    static_assert(kBits > 4);
    const float* table;
    explicit Lookup(const float* entries) : table(entries) {}
    float32x4_t quarter(uint8x16_t v) const {
      const uint32x4_t index = low_bits_of_words<kBits>(v);
      float32x4_t found = vdupq_n_f32(table[vgetq_lane_u32(index, 0)]);
      found = vld1q_lane_f32(table + vgetq_lane_u32(index, 1), found, 1);
      found = vld1q_lane_f32(table + vgetq_lane_u32(index, 2), found, 2);
      return vld1q_lane_f32(table + vgetq_lane_u32(index, 3), found, 3);
    }
    F operator()(Bytes v) const {
      return each<F>([this](uint8x16_t u) { return quarter(u); }, v);
    }
  };

  // Where the bytes of an entry are, for tbl: 4 code … 4 code + 3.
  template <int kBits>
  static uint8x16_t bytes_of_entries(uint8x16_t v) {
    return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100u), low_bits_of_words<kBits>(v), 0x04040404u));
  }
  static uint8x16_t four_entries(const float* table) { return vreinterpretq_u8_f32(vld1q_f32(table)); }
};

template <>
struct Vector4x128::Lookup<1> {
  float32x4_t zero, one;
  explicit Lookup(const float* table) : zero(vdupq_n_f32(table[0])), one(vdupq_n_f32(table[1])) {}
  F operator()(Bytes v) const {
    return each<F>([this](uint8x16_t u) { return vbslq_f32(vtstq_u32(words(u), vdupq_n_u32(1)), one, zero); }, v);
  }
};
template <>
struct Vector4x128::Lookup<2> {
  uint8x16_t entries;
  explicit Lookup(const float* table) : entries(four_entries(table)) {}
  F operator()(Bytes v) const {
    return each<F>([this](uint8x16_t u) { return vreinterpretq_f32_u8(vqtbl1q_u8(entries, bytes_of_entries<2>(u))); },
                   v);
  }
};
template <>
struct Vector4x128::Lookup<3> {
  uint8x16x2_t entries;
  explicit Lookup(const float* table) : entries{{four_entries(table), four_entries(table + 4)}} {}
  F operator()(Bytes v) const {
    return each<F>([this](uint8x16_t u) { return vreinterpretq_f32_u8(vqtbl2q_u8(entries, bytes_of_entries<3>(u))); },
                   v);
  }
};
template <>
struct Vector4x128::Lookup<4> {
  uint8x16x4_t entries;
  explicit Lookup(const float* table)
      : entries{{four_entries(table), four_entries(table + 4), four_entries(table + 8), four_entries(table + 12)}} {}
  F operator()(Bytes v) const {
    return each<F>([this](uint8x16_t u) { return vreinterpretq_f32_u8(vqtbl4q_u8(entries, bytes_of_entries<4>(u))); },
                   v);
  }
};

}  // namespace
}  // namespace nibble::quant
