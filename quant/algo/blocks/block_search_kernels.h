#pragma once

#include <cstddef>

// What search_blocks() spends its time in, per instruction set: sixteen blocks at once, one in each lane.
namespace nibble::quant::block_search_kernels {

constexpr std::size_t kLanes = 16;

/// One grid per lane: q = clamp(round_half_even(w / scale), low, high), integers held as floats.
struct Grids {
  float scale[kLanes];  ///< of either sign; 0: every q is 0
  float low[kLanes], high[kLanes];
};

/// Per lane: sums of products of the remainders e = w - scale · q and the q, in the metric of the error.
struct Sums {
  float ee[kLanes], eq[kLanes], qq[kLanes];
};

/// Per lane: the best grid so far and what it loses.
struct Best {
  float scale[kLanes], low[kLanes], error[kLanes];
};

/// Σ f e², Σ f e q, Σ f q² over `count` inputs. values, weights (count, kLanes).
Sums weighted_sums_scalar(const float* values, const float* weights, std::size_t count, const Grids& grids);
Sums weighted_sums_avx2(const float* values, const float* weights, std::size_t count, const Grids& grids);
Sums weighted_sums_avx512(const float* values, const float* weights, std::size_t count, const Grids& grids);
Sums weighted_sums_neon(const float* values, const float* weights, std::size_t count, const Grids& grids);

constexpr std::size_t kMostHessianInputs = 64;

/// e H eᵀ, e H qᵀ, q H qᵀ for count <= kMostHessianInputs inputs; h (count, count) with `stride` between its rows,
/// symmetric.
Sums hessian_sums_scalar(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const Grids& grids);
Sums hessian_sums_avx2(const float* values, const float* h, std::size_t stride, std::size_t count, const Grids& grids);
Sums hessian_sums_avx512(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const Grids& grids);
Sums hessian_sums_neon(const float* values, const float* h, std::size_t stride, std::size_t count, const Grids& grids);

/// Where the codes of `grids`, of which `sums` are, lose less than best.error with the best scale for them,
/// scale + eq / qq, takes that scale and their `low`. A scale that would turn its sign, or with qq = 0, stays.
void improve_scalar(const Grids& grids, const Sums& sums, Best& best);
void improve_avx2(const Grids& grids, const Sums& sums, Best& best);
void improve_avx512(const Grids& grids, const Sums& sums, Best& best);
void improve_neon(const Grids& grids, const Sums& sums, Best& best);

struct Kernels {
  decltype(&weighted_sums_scalar) weighted_sums;
  decltype(&hessian_sums_scalar) hessian_sums;
  decltype(&improve_scalar) improve;
};
/// Those of the instruction set in force.
Kernels active();

}  // namespace nibble::quant::block_search_kernels
