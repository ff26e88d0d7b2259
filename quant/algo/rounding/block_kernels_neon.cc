#include <arm_neon.h>

#include "quant/algo/rounding/block_kernels.h"

namespace nibble::quant::block_kernels {
namespace {

std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

}  // namespace

bool block_extremes_neon(const float* row, std::size_t count, std::size_t block, float* low, float* high) {
  uint32x4_t good_lanes = vdupq_n_u32(~0u);  // value · 0 is not a number for what is not finite
  bool good = true;
  for (std::size_t begin = 0; begin < count; begin += block, ++low, ++high) {
    const std::size_t end = least(begin + block, count);
    float32x4_t smallest = vdupq_n_f32(row[begin]), largest = smallest;
    std::size_t j = begin;
    for (; j + 4 <= end; j += 4) {
      const float32x4_t value = vld1q_f32(row + j);
      good_lanes = vandq_u32(good_lanes, vceqzq_f32(vmulq_n_f32(value, 0.0f)));
      smallest = vminq_f32(smallest, value);
      largest = vmaxq_f32(largest, value);
    }
    *low = vminvq_f32(smallest);
    *high = vmaxvq_f32(largest);
    for (; j < end; ++j) {
      if (row[j] < *low) *low = row[j];
      if (row[j] > *high) *high = row[j];
      good = good && row[j] * 0.0f == 0.0f;
    }
  }
  return good && vminvq_u32(good_lanes) != 0;
}

void round_row_neon(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                    float top, std::uint8_t* codes) {
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    const std::size_t end = least(begin + block, count);
    const float inverse = *scales == 0.0f ? 0.0f : 1.0f / *scales;
    const float32x4_t lowest = vdupq_n_f32(-*zeros), highest = vdupq_n_f32(top - *zeros);
    const int32x4_t zero = vdupq_n_s32(static_cast<int>(*zeros));
    const auto four = [&](std::size_t j) {
      const float32x4_t steps = vmulq_n_f32(vld1q_f32(row + j), inverse);
      const float32x4_t inside = vminnmq_f32(vmaxnmq_f32(steps, lowest), highest);
      return vmovn_s32(vaddq_s32(vcvtnq_s32_f32(inside), zero));
    };
    std::size_t j = begin;
    for (; j + 8 <= end; j += 8) vst1_u8(codes + j, vreinterpret_u8_s8(vmovn_s16(vcombine_s16(four(j), four(j + 4)))));
    round_row_scalar(row + j, end - j, block, scales, zeros, top, codes + j);
  }
}

}  // namespace nibble::quant::block_kernels
