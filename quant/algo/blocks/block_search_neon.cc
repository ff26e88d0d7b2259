#include <arm_neon.h>

#include "quant/algo/blocks/block_search_kernels.h"

namespace nibble::quant::block_search_kernels {
namespace {

constexpr std::size_t kQuarter = 4;  // lanes of a register: blocks are handled in four quarters

float32x4_t where(uint32x4_t mask, float32x4_t v) {
  return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(v)));
}

// Four grids in registers. Steps are rounded by adding 1.5 · 2^23, and clamped before it is taken away again.
struct Registers {
  float32x4_t rounder = vdupq_n_f32(0x1.8p23f), scale, inverse, low, high;

  Registers(const Grids& grids, std::size_t first)
      : scale(vld1q_f32(grids.scale + first)),
        inverse(where(vmvnq_u32(vceqzq_f32(scale)), vdivq_f32(vdupq_n_f32(1.0f), scale))),
        low(vaddq_f32(vld1q_f32(grids.low + first), rounder)),
        high(vaddq_f32(vld1q_f32(grids.high + first), rounder)) {}

  float32x4_t step(float32x4_t value) const {
    const float32x4_t steps = vfmaq_f32(rounder, value, inverse);
    return vsubq_f32(vminnmq_f32(vmaxnmq_f32(steps, low), high), rounder);
  }
};

struct Totals {
  float32x4_t ee = vdupq_n_f32(0.0f), eq = ee, qq = ee;
  void store(Sums& sums, std::size_t first) const {
    vst1q_f32(sums.ee + first, ee);
    vst1q_f32(sums.eq + first, eq);
    vst1q_f32(sums.qq + first, qq);
  }
};

}  // namespace

Sums weighted_sums_neon(const float* values, const float* weights, std::size_t count, const Grids& grids) {
  Sums sums;
  for (std::size_t first = 0; first < kLanes; first += kQuarter) {
    const Registers grid(grids, first);
    Totals totals;
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t at = j * kLanes + first;
      const float32x4_t value = vld1q_f32(values + at), weight = vld1q_f32(weights + at);
      const float32x4_t q = grid.step(value), e = vfmsq_f32(value, q, grid.scale);
      const float32x4_t weighted_e = vmulq_f32(weight, e);
      totals.ee = vfmaq_f32(totals.ee, weighted_e, e);
      totals.eq = vfmaq_f32(totals.eq, weighted_e, q);
      totals.qq = vfmaq_f32(totals.qq, vmulq_f32(weight, q), q);
    }
    totals.store(sums, first);
  }
  return sums;
}

Sums hessian_sums_neon(const float* values, const float* h, std::size_t stride, std::size_t count, const Grids& grids) {
  Sums sums;
  for (std::size_t first = 0; first < kLanes; first += kQuarter) {
    const Registers grid(grids, first);
    float32x4_t e[kMostHessianInputs], q[kMostHessianInputs];
    for (std::size_t j = 0; j < count; ++j) {
      const float32x4_t value = vld1q_f32(values + j * kLanes + first);
      q[j] = grid.step(value);
      e[j] = vfmsq_f32(value, q[j], grid.scale);
    }
    Totals totals;
    for (std::size_t i = 0; i < count; ++i) {
      // Below the diagonal twice instead of on both sides: e H q and q H e are the same.
      float32x4_t he = vdupq_n_f32(0.0f), hq = he;
      const float* row = h + i * stride;
      for (std::size_t j = 0; j < i; ++j) {
        he = vfmaq_n_f32(he, e[j], row[j]);
        hq = vfmaq_n_f32(hq, q[j], row[j]);
      }
      const float32x4_t de = vmulq_n_f32(e[i], row[i]), dq = vmulq_n_f32(q[i], row[i]);
      totals.ee = vfmaq_f32(totals.ee, e[i], vfmaq_n_f32(de, he, 2.0f));
      totals.qq = vfmaq_f32(totals.qq, q[i], vfmaq_n_f32(dq, hq, 2.0f));
      totals.eq = vfmaq_f32(vfmaq_f32(totals.eq, q[i], he), e[i], vaddq_f32(hq, dq));
    }
    totals.store(sums, first);
  }
  return sums;
}

void improve_neon(const Grids& grids, const Sums& sums, Best& best) {
  for (std::size_t first = 0; first < kLanes; first += kQuarter) {
    const float32x4_t scale = vld1q_f32(grids.scale + first), qq = vld1q_f32(sums.qq + first),
                      eq = vld1q_f32(sums.eq + first);
    const float32x4_t shift = where(vcgtzq_f32(qq), vdivq_f32(eq, qq));
    const float32x4_t turned = vmulq_f32(vaddq_f32(scale, shift), scale);
    const float32x4_t used = where(vcgtzq_f32(turned), shift);
    const float32x4_t error = vfmsq_f32(vld1q_f32(sums.ee + first), used, eq);
    const uint32x4_t better = vcltq_f32(error, vld1q_f32(best.error + first));
    const auto take = [better, first](float* of, float32x4_t v) {
      vst1q_f32(of + first, vbslq_f32(better, v, vld1q_f32(of + first)));
    };
    take(best.error, error);
    take(best.scale, vaddq_f32(scale, used));
    take(best.low, vld1q_f32(grids.low + first));
  }
}

}  // namespace nibble::quant::block_search_kernels
