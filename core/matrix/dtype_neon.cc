#include <arm_neon.h>

#include "core/matrix/dtype_kernels.h"

namespace nibble::dtype_kernels {
namespace {

// The last 1 to 7 elements go through a padded copy, so that nothing past the end is read or written.
struct Tail {
  std::uint8_t half[16] = {};
  float single[8] = {};
};

struct Eight {
  float32x4_t low, high;
};
Eight load_eight(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
void store_eight(float* p, Eight v) {
  vst1q_f32(p, v.low);
  vst1q_f32(p + 4, v.high);
}

Eight widen_f16(uint8x16_t bytes) {
  const float16x8_t half = vreinterpretq_f16_u8(bytes);
  return {vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
}
Eight widen_bf16(uint8x16_t bytes) {
  const uint16x8_t half = vreinterpretq_u16_u8(bytes);
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(half), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(half, 16))};
}

// Half of the last kept bit is added, less a little where that bit is even; a NaN is made quiet instead, whose carry
// could end in infinity.
float32x4_t round_bf16(float32x4_t value) {
  const uint32x4_t bits = vreinterpretq_u32_f32(value);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(vdupq_n_u32(0x7FFF), odd));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  const uint32x4_t chosen = vbslq_u32(vceqq_f32(value, value), rounded, quiet);
  return vreinterpretq_f32_u32(vandq_u32(chosen, vdupq_n_u32(0xFFFF0000u)));
}

uint8x16_t narrow_f16(Eight v) { return vreinterpretq_u8_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high)); }

template <Eight (*Widen)(uint8x16_t)>
void to_f32(const void* source, std::size_t count, float* destination) {
  const auto* bytes = static_cast<const std::uint8_t*>(source);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) store_eight(destination + i, Widen(vld1q_u8(bytes + 2 * i)));
  if (i == count) return;
  Tail tail;
  __builtin_memcpy(tail.half, bytes + 2 * i, 2 * (count - i));
  store_eight(tail.single, Widen(vld1q_u8(tail.half)));
  __builtin_memcpy(destination + i, tail.single, 4 * (count - i));
}

}  // namespace

void f16_to_f32_neon(const void* source, std::size_t count, float* destination) {
  to_f32<widen_f16>(source, count, destination);
}
void bf16_to_f32_neon(const void* source, std::size_t count, float* destination) {
  to_f32<widen_bf16>(source, count, destination);
}

void f32_to_f16_neon(const float* source, std::size_t count, void* destination) {
  auto* bytes = static_cast<std::uint8_t*>(destination);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) vst1q_u8(bytes + 2 * i, narrow_f16(load_eight(source + i)));
  if (i == count) return;
  Tail tail;
  __builtin_memcpy(tail.single, source + i, 4 * (count - i));
  vst1q_u8(tail.half, narrow_f16(load_eight(tail.single)));
  __builtin_memcpy(bytes + 2 * i, tail.half, 2 * (count - i));
}

void round_to_bf16_neon(const float* source, std::size_t count, float* destination) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) vst1q_f32(destination + i, round_bf16(vld1q_f32(source + i)));
  if (i == count) return;
  Tail tail;
  __builtin_memcpy(tail.single, source + i, 4 * (count - i));
  vst1q_f32(tail.single, round_bf16(vld1q_f32(tail.single)));
  __builtin_memcpy(destination + i, tail.single, 4 * (count - i));
}

}  // namespace nibble::dtype_kernels
