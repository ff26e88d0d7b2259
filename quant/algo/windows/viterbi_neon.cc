#include <arm_neon.h>

#include "quant/algo/windows/viterbi_kernels.h"
#include "quant/algo/windows/viterbi_simd.h"

namespace nibble::quant::viterbi_kernels {
namespace {

// Pairs of registers: decisions of 8 groups are a byte.
struct Neon {
  struct F {
    float32x4_t low, high;
  };
  using Mask = uint16x8_t;
  static constexpr unsigned kWidth = 8;

  static F load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static void store(float* p, F a) {
    vst1q_f32(p, a.low);
    vst1q_f32(p + 4, a.high);
  }
  static F set(float a) { return {vdupq_n_f32(a), vdupq_n_f32(a)}; }
  static F add(F a, F b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
  static F sub(F a, F b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
  static F mul(F a, F b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
  static float32x4_t minimum(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F minimum(F a, F b) { return {minimum(a.low, b.low), minimum(a.high, b.high)}; }
  static Mask less(F a, F b) {
    return vcombine_u16(vmovn_u32(vcltq_f32(a.low, b.low)), vmovn_u32(vcltq_f32(a.high, b.high)));
  }
  static Mask select(Mask mask, Mask a, Mask b) { return vbslq_u16(mask, a, b); }
  static std::uint8_t bits(Mask mask) {
    constexpr std::uint16_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    return static_cast<std::uint8_t>(vaddvq_u16(vandq_u16(mask, vld1q_u16(kBits))));
  }
  static F even(F a, F b) { return {vuzp1q_f32(a.low, a.high), vuzp1q_f32(b.low, b.high)}; }
  static F odd(F a, F b) { return {vuzp2q_f32(a.low, a.high), vuzp2q_f32(b.low, b.high)}; }
  template <unsigned n>
  static F strided(F a, unsigned b) {
    const uint8x16x2_t bytes = {{vreinterpretq_u8_f32(a.low), vreinterpretq_u8_f32(a.high)}};
    constexpr std::uint32_t kLow[4] = {0, n, 2 * n, 3 * n}, kHigh[4] = {4 * n, 5 * n, 6 * n, 7 * n};
    const auto pick = [&](uint32x4_t lanes) {
      const uint32x4_t lane = vandq_u32(vaddq_u32(lanes, vdupq_n_u32(b)), vdupq_n_u32(7));
      const uint8x16_t at = vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100u), lane, 0x04040404u));
      return vreinterpretq_f32_u8(vqtbl2q_u8(bytes, at));
    };
    return {pick(vld1q_u32(kLow)), pick(vld1q_u32(kHigh))};
  }
};

// One register, for four groups.
struct NeonHalf {
  using F = float32x4_t;
  using Mask = uint32x4_t;
  static constexpr unsigned kWidth = 4;

  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F a) { vst1q_f32(p, a); }
  static F set(float a) { return vdupq_n_f32(a); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F minimum(F a, F b) { return Neon::minimum(a, b); }
  static Mask less(F a, F b) { return vcltq_f32(a, b); }
  static Mask select(Mask mask, Mask a, Mask b) { return vbslq_u32(mask, a, b); }
  static std::uint8_t bits(Mask mask) {
    constexpr std::uint32_t kBits[4] = {1, 2, 4, 8};
    return static_cast<std::uint8_t>(vaddvq_u32(vandq_u32(mask, vld1q_u32(kBits))));
  }
  template <unsigned n>
  static F strided(F a, unsigned b) {
    constexpr std::uint32_t kLanesOf[4] = {0, n, 2 * n, 3 * n};
    const uint32x4_t lane = vandq_u32(vaddq_u32(vld1q_u32(kLanesOf), vdupq_n_u32(b)), vdupq_n_u32(3));
    const uint8x16_t at = vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100u), lane, 0x04040404u));
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(a), at));
  }
};

}  // namespace

void forward_neon(const Trellis& trellis, const float* targets, const float* factors, std::size_t rows,
                  const float* start, std::uint8_t* decisions, float* costs) {
  if (trellis.window_bits - trellis.bits == 2)
    return forward_any<NeonHalf, 2, 2>(trellis, targets, factors, rows, start, decisions, costs);
  forward_any<Neon, 3>(trellis, targets, factors, rows, start, decisions, costs);
}

}  // namespace nibble::quant::viterbi_kernels
