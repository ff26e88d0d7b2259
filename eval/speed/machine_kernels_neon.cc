#include <arm_neon.h>

#include "eval/speed/machine_kernels.h"

namespace nibble::eval::kernels {

std::uint64_t read_neon(const std::uint8_t* data, std::size_t bytes) {
  uint64x2_t sums[16];
  for (uint64x2_t& sum : sums) sum = vdupq_n_u64(0);
  for (std::size_t i = 0; i < bytes; i += 256)
#pragma GCC unroll 16
    for (std::size_t w = 0; w < 16; ++w)
      sums[w] = vaddq_u64(sums[w], vreinterpretq_u64_u8(vld1q_u8(data + i + w * 16)));
  std::uint64_t total = 0;
  for (const uint64x2_t& sum : sums) total += vaddvq_u64(sum);
  return total;
}

float multiply_add_neon(std::size_t rounds) {
  constexpr int kChains = 24;  // of 32 registers
  const float32x4_t factor = vdupq_n_f32(0.999f), term = vdupq_n_f32(0.5f);
  float32x4_t sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = vdupq_n_f32(static_cast<float>(i));
  for (std::size_t round = 0; round < rounds; ++round)
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sums[i] = vfmaq_f32(term, sums[i], factor);
  float32x4_t total = vdupq_n_f32(0.0f);
  for (int i = 0; i < kChains; ++i) total = vaddq_f32(total, sums[i]);
  return vaddvq_f32(total);
}

}  // namespace nibble::eval::kernels
