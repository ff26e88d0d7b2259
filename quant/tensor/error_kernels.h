#pragma once

#include <cstddef>

// Plain arithmetic only: per-ISA files include this.
namespace nibble::quant::error_kernels {

/// Sums that a row adds to its weight's errors.
struct Squares {
  double error, norm;  ///< of (w_j - a_j)² and of w_j²
};

/// Element j of a row goes to lane j % kLanes, without fused multiply-adds; squares() adds the lanes up: the same
/// bits on every processor.
constexpr std::size_t kLanes = 16;

struct Lanes {
  alignas(64) double error[kLanes];
  alignas(64) double norm[kLanes];
};

using AddSquares = void (*)(const float* w, const float* approximations, std::size_t count, Lanes& lanes);

/// Adds the first `count` values, a multiple of kLanes, to `lanes`.
void add_squares_scalar(const float* w, const float* approximations, std::size_t count, Lanes& lanes);
void add_squares_avx2(const float* w, const float* approximations, std::size_t count, Lanes& lanes);
void add_squares_avx512(const float* w, const float* approximations, std::size_t count, Lanes& lanes);

/// Of any number of values, by the tier in force.
Squares squares(const float* w, const float* approximations, std::size_t count);

}  // namespace nibble::quant::error_kernels
