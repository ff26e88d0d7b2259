#include "quant/algo/blocks/palette_block_simd.h"

namespace nibble::quant::palette_block_kernels {

Sums weighted_sums_scalar(const float* values, const float* weights, std::size_t count, const float* scales,
                          const Entries& entries) {
  return weighted_of(values, weights, count, scales, entries);
}

Sums hessian_sums_scalar(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const float* scales, const Entries& entries) {
  return under_hessian_of(values, h, stride, count, scales, entries);
}

}  // namespace nibble::quant::palette_block_kernels
