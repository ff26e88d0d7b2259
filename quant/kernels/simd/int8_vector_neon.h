#pragma once

#include "quant/kernels/simd/least_activation.h"
#include "quant/kernels/simd/plain_block_product.h"
#include "quant/kernels/simd/vector_neon.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h in NEON, over what it has for products of bytes:
// Dot           kLess              0: bytes are unsigned, 128: they are shifted to -128 … 127
//               dot(sum, w, x)     each four of 16 products, added to the lane of four
// Only *_neon*.cc include this.
namespace nibble::quant {
namespace {

struct Int8Lanes4x128 : Vector4x128 {
  struct Sums {
    int32x4_t a, b, c, d;
  };
  struct Inputs {
    int8x16_t a, b, c, d;
  };

  static Sums set_sums(int value) {
    const int32x4_t v = vdupq_n_s32(value);
    return {v, v, v, v};
  }
  static Sums add_sums(Sums x, Sums y) {
    return each<Sums>([](int32x4_t u, int32x4_t v) { return vaddq_s32(u, v); }, x, y);
  }
  static F floats(Sums sums) {
    return each<F>([](int32x4_t u) { return vcvtq_f32_s32(u); }, sums);
  }
  static Sums small_integers(const std::uint8_t* p) {
    return each<Sums>([](uint8x16_t u) { return vreinterpretq_s32_u8(u); }, widen_bytes(p));
  }
  static Sums less_products(Sums sums, Sums integers, int factor) {
    return each<Sums>([factor](int32x4_t u, int32x4_t v) { return vmlsq_n_s32(u, v, factor); }, sums, integers);
  }
  static Inputs inputs(const std::int8_t* x) {
    return {vld1q_s8(x), vld1q_s8(x + 16), vld1q_s8(x + 32), vld1q_s8(x + 48)};
  }
  static Inputs four_inputs(const std::int8_t* x) {
    std::int32_t four = 0;
    __builtin_memcpy(&four, x, sizeof four);
    const int8x16_t v = vreinterpretq_s8_s32(vdupq_n_s32(four));
    return {v, v, v, v};
  }

  static uint8x16_t minus_128(uint8x16_t bytes) { return veorq_u8(bytes, vdupq_n_u8(128)); }
  static Bytes minus_128(Bytes bytes) {
    return each<Bytes>([](uint8x16_t u) { return minus_128(u); }, bytes);
  }

  template <int kBits>
  static Bytes low_bits(Bytes field) {
    return each<Bytes>([](uint8x16_t u) { return vandq_u8(u, vdupq_n_u8((1 << kBits) - 1)); }, field);
  }

  // One tbl looks up 64 entries.
  template <int kBits>
  struct TableEntries {
    uint8x16x4_t tables;
    TableEntries(const std::uint8_t* entries, bool shifted) {
      for (std::size_t i = 0; i < (kBits <= 4 ? 1 : 4); ++i) {
        tables.val[i] = vld1q_u8(entries + 16 * i);
        if (shifted) tables.val[i] = minus_128(tables.val[i]);
      }
    }
    Bytes bytes(Bytes field) const {
      if constexpr (kBits <= 4) {
        return each<Bytes>([this](uint8x16_t u) { return vqtbl1q_u8(tables.val[0], vandq_u8(u, vdupq_n_u8(15))); },
                           field);
      } else {
        return each<Bytes>([this](uint8x16_t u) { return vqtbl4q_u8(tables, vandq_u8(u, vdupq_n_u8(63))); }, field);
      }
    }
  };

  static void quantize_block(const float* x, std::int8_t* x8, float& scale, std::int32_t& sum) {
    const F low = load(x), high = load(x + 16);
    const F sizes =
        each<F>([](float32x4_t u, float32x4_t v) { return vmaxq_f32(vabsq_f32(u), vabsq_f32(v)); }, low, high);
    const float largest = vmaxvq_f32(vmaxq_f32(vmaxq_f32(sizes.a, sizes.b), vmaxq_f32(sizes.c, sizes.d)));
    const bool finite = largest <= __FLT_MAX__;  // a NaN stays the maximum of whatever it meets
    const float inverse = largest > kLeastActivation ? 127.0f / largest : 0.0f;
    const auto round = [&](float32x4_t v) { return finite ? vcvtnq_s32_f32(vmulq_n_f32(v, inverse)) : vdupq_n_s32(0); };
    const Sums a = each<Sums>(round, low), b = each<Sums>(round, high);
    const auto narrow = [](Sums v) {
      return vcombine_s8(vmovn_s16(vcombine_s16(vmovn_s32(v.a), vmovn_s32(v.b))),
                         vmovn_s16(vcombine_s16(vmovn_s32(v.c), vmovn_s32(v.d))));
    };
    vst1q_s8(x8, narrow(a));
    vst1q_s8(x8 + 16, narrow(b));
    scale = finite ? largest / 127.0f : __builtin_nanf("");
    const Sums both = add_sums(a, b);
    sum = vaddvq_s32(vaddq_s32(vaddq_s32(both.a, both.b), vaddq_s32(both.c, both.d)));
  }
};

template <class Dot>
struct Int8Vector4x128 : Int8Lanes4x128 {
  static constexpr bool kShifted = Dot::kLess != 0;

  // Bytes below 128 are the same, signed or not.
  template <int kLessOfBytes>
  struct Products {
    static constexpr int kLess = kLessOfBytes;
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      return each<Sums>([](int32x4_t s, uint8x16_t u, int8x16_t v) { return Dot::dot(s, u, v); }, sums, w, x);
    }
  };
  using AnyBytes = Products<Dot::kLess>;
  using SmallBytes = Products<0>;

  template <class Product, bool>
  using BlockProduct = PlainBlockProduct<Int8Lanes4x128, Product>;

  template <int kBits>
  struct Entries : TableEntries<kBits> {
    using Product = AnyBytes;
    explicit Entries(const std::uint8_t* entries) : TableEntries<kBits>(entries, kShifted) {}
  };

  template <int kBits>
  struct Codes {
    static constexpr bool kAny = kBits == 8;
    using Product = Products<kAny ? Dot::kLess : 0>;
    Bytes bytes(Bytes field) const {
      if constexpr (!kAny)
        return low_bits<kBits>(field);
      else if constexpr (kShifted)
        return minus_128(field);
      else
        return field;
    }
  };
};

// Two products of -128 … 127 and -127 … 127 are at most 2 · 128 · 127, which 16 bits hold.
struct WideningDot {
  static constexpr int kLess = 128;
  static int32x4_t dot(int32x4_t sum, uint8x16_t w, int8x16_t x) {
    const int8x16_t weights = vreinterpretq_s8_u8(w);
    const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(x)), high = vmull_high_s8(weights, x);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
  }
};

}  // namespace
}  // namespace nibble::quant
