#include <arm_neon.h>

#include "quant/algo/vectors/vector_kernels.h"

namespace nibble::quant::vector_kernels {
namespace {

constexpr std::size_t kLanes = 4;

// Whole registers of vectors; returns how many vectors that was.
template <std::size_t Dim>
std::size_t nearest(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                    std::size_t entries, std::uint8_t* codes, float* least) {
  std::size_t begin = 0;
  for (; begin + kLanes <= count; begin += kLanes) {
    float32x4_t s[Dim], r[Dim], smallest = vdupq_n_f32(__builtin_inff());
    uint32x4_t code = vdupq_n_u32(0);
    for (std::size_t d = 0; d < Dim; ++d) {
      s[d] = vld1q_f32(scaled + d * stride + begin);
      r[d] = vld1q_f32(root + d * stride + begin);
    }
    for (std::size_t k = 0; k < entries; ++k) {
      float32x4_t distance = vdupq_n_f32(0.0f);
      for (std::size_t d = 0; d < Dim; ++d) {
        const float32x4_t difference = vfmsq_n_f32(s[d], r[d], palette[k * Dim + d]);
        distance = vfmaq_f32(distance, difference, difference);
      }
      const uint32x4_t nearer = vcltq_f32(distance, smallest);
      smallest = vbslq_f32(nearer, distance, smallest);
      code = vbslq_u32(nearer, vdupq_n_u32(static_cast<std::uint32_t>(k)), code);
    }
    vst1q_f32(least + begin, smallest);
    std::uint32_t indices[kLanes];
    vst1q_u32(indices, code);
    for (std::size_t lane = 0; lane < kLanes; ++lane) codes[begin + lane] = static_cast<std::uint8_t>(indices[lane]);
  }
  return begin;
}

}  // namespace

void nearest_neon(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                  std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least) {
  const std::size_t done = dim == 2 ? nearest<2>(scaled, root, stride, count, palette, entries, codes, least)
                                    : nearest<4>(scaled, root, stride, count, palette, entries, codes, least);
  nearest_scalar(scaled + done, root + done, stride, count - done, palette, entries, dim, codes + done, least + done);
}

}  // namespace nibble::quant::vector_kernels
