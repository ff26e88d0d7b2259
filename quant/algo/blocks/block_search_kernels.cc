#include "quant/algo/blocks/block_search_kernels.h"

#include <algorithm>

#include "core/machine/isa.h"

namespace nibble::quant::block_search_kernels {
namespace {

constexpr float kRounder = 0x1.8p23f;  // added and taken away again it rounds half to even

struct Inverses {
  float lanes[kLanes];
  explicit Inverses(const Grids& grids) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = grids.scale[lane] == 0.0f ? 0.0f : 1.0f / grids.scale[lane];
  }
};

float grid_step(float steps, const Grids& grids, std::size_t lane) {
  return (std::clamp(steps, grids.low[lane], grids.high[lane]) + kRounder) - kRounder;
}

}  // namespace

Sums weighted_sums_scalar(const float* values, const float* weights, std::size_t count, const Grids& grids) {
  const Inverses inverse(grids);
  Sums sums{};
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[j * kLanes + lane], weight = weights[j * kLanes + lane];
      const float q = grid_step(value * inverse.lanes[lane], grids, lane), e = value - q * grids.scale[lane];
      sums.ee[lane] += weight * e * e;
      sums.eq[lane] += weight * e * q;
      sums.qq[lane] += weight * q * q;
    }
  }
  return sums;
}

Sums hessian_sums_scalar(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const Grids& grids) {
  const Inverses inverse(grids);
  float e[kMostHessianInputs * kLanes], q[kMostHessianInputs * kLanes];
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t at = j * kLanes + lane;
      q[at] = grid_step(values[at] * inverse.lanes[lane], grids, lane);
      e[at] = values[at] - q[at] * grids.scale[lane];
    }
  }
  Sums sums{};
  for (std::size_t i = 0; i < count; ++i) {
    float he[kLanes]{}, hq[kLanes]{};
    for (std::size_t j = 0; j < count; ++j) {
      const float entry = h[i * stride + j];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        he[lane] += entry * e[j * kLanes + lane];
        hq[lane] += entry * q[j * kLanes + lane];
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t at = i * kLanes + lane;
      sums.ee[lane] += e[at] * he[lane];
      sums.eq[lane] += q[at] * he[lane];
      sums.qq[lane] += q[at] * hq[lane];
    }
  }
  return sums;
}

void improve_scalar(const Grids& grids, const Sums& sums, Best& best) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    float shift = sums.qq[lane] > 0.0f ? sums.eq[lane] / sums.qq[lane] : 0.0f;
    if ((grids.scale[lane] + shift) * grids.scale[lane] <= 0.0f) shift = 0.0f;
    const float error = sums.ee[lane] - shift * sums.eq[lane];
    if (!(error < best.error[lane])) continue;
    best.error[lane] = error;
    best.scale[lane] = grids.scale[lane] + shift;
    best.low[lane] = grids.low[lane];
  }
}

Kernels active() {
  return {choose_variant(weighted_sums_scalar, NIBBLE_AVX2_VARIANT(weighted_sums_avx2),
                         NIBBLE_AVX512_VARIANT(weighted_sums_avx512), NIBBLE_NEON_VARIANT(weighted_sums_neon)),
          choose_variant(hessian_sums_scalar, NIBBLE_AVX2_VARIANT(hessian_sums_avx2),
                         NIBBLE_AVX512_VARIANT(hessian_sums_avx512), NIBBLE_NEON_VARIANT(hessian_sums_neon)),
          choose_variant(improve_scalar, NIBBLE_AVX2_VARIANT(improve_avx2), NIBBLE_AVX512_VARIANT(improve_avx512),
                         NIBBLE_NEON_VARIANT(improve_neon))};
}

}  // namespace nibble::quant::block_search_kernels
