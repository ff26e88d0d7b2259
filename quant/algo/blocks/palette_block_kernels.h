#pragma once

#include <cstddef>

// What searches of block palettes' scales spend their time in, per instruction set: sixteen blocks at once, one in each
// lane. All sets give the same bits.
namespace nibble::quant::palette_block_kernels {

constexpr std::size_t kLanes = 16;

/// A palette, ascending, and where its entries meet: a value stands for entry c when c of the bounds are below it.
struct Entries {
  std::size_t count = 0;  ///< at most 16
  float value[kLanes] = {};
  float bound[kLanes] = {};  ///< count - 1 of them
};

/// Per lane: sums of products of the remainders e = w - scale · q and the entries q, in the metric of the error.
struct Sums {
  float ee[kLanes], eq[kLanes], qq[kLanes];
};

/// Σ f e², Σ f e q, Σ f q² over `count` inputs; q the entry that w · (1 / scale) stands for (scale 0: that 0 stands
/// for). values, weights (count, kLanes); scales (kLanes).
Sums weighted_sums_scalar(const float* values, const float* weights, std::size_t count, const float* scales,
                          const Entries& entries);
Sums weighted_sums_avx2(const float* values, const float* weights, std::size_t count, const float* scales,
                        const Entries& entries);
Sums weighted_sums_avx512(const float* values, const float* weights, std::size_t count, const float* scales,
                          const Entries& entries);

constexpr std::size_t kMostHessianInputs = 64;

/// e H eᵀ, e H qᵀ, q H qᵀ for count <= kMostHessianInputs inputs; h (count, count) with `stride` between its rows,
/// symmetric.
Sums hessian_sums_scalar(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const float* scales, const Entries& entries);
Sums hessian_sums_avx2(const float* values, const float* h, std::size_t stride, std::size_t count, const float* scales,
                       const Entries& entries);
Sums hessian_sums_avx512(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const float* scales, const Entries& entries);

struct Kernels {
  decltype(&weighted_sums_scalar) weighted_sums;
  decltype(&hessian_sums_scalar) hessian_sums;
};
/// Those of the instruction set in force.
Kernels active();

}  // namespace nibble::quant::palette_block_kernels
