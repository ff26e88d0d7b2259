#include <arm_neon.h>

#include "quant/algo/kmeans/assign_kernels.h"

namespace nibble::quant::assign_kernels {
namespace {

constexpr unsigned kMostLevels = 5;  // so many bounds are compared with every value; there are no gathers to halve with

// Lanes where a bound is below the value are all ones, which is -1.
uint8x16_t count_of_sixteen(const float* x, const float* bounds, std::size_t entries) {
  const float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + 4), c = vld1q_f32(x + 8), d = vld1q_f32(x + 12);
  uint32x4_t of_a = vdupq_n_u32(0), of_b = of_a, of_c = of_a, of_d = of_a;
  for (std::size_t i = 0; i + 1 < entries; ++i) {  // the last one is infinite
    const float32x4_t bound = vdupq_n_f32(bounds[i]);
    of_a = vsubq_u32(of_a, vcltq_f32(bound, a));
    of_b = vsubq_u32(of_b, vcltq_f32(bound, b));
    of_c = vsubq_u32(of_c, vcltq_f32(bound, c));
    of_d = vsubq_u32(of_d, vcltq_f32(bound, d));
  }
  const uint16x8_t low = vcombine_u16(vmovn_u32(of_a), vmovn_u32(of_b)),
                   high = vcombine_u16(vmovn_u32(of_c), vmovn_u32(of_d));
  return vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}

}  // namespace

void count_below_neon(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes) {
  std::size_t i = 0;
  if (levels <= kMostLevels)
    for (; i + 16 <= count; i += 16) vst1q_u8(codes + i, count_of_sixteen(x + i, bounds, std::size_t{1} << levels));
  count_below_scalar(x + i, count - i, bounds, levels, codes + i);
}

}  // namespace nibble::quant::assign_kernels
