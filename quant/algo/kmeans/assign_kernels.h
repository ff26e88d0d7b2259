#pragma once

#include <cstddef>
#include <cstdint>

// Nearest-centroid codes per instruction set, behind assign_codes() of quant/algo/kmeans/palette.h.
namespace nibble::quant::assign_kernels {

/// The largest float that is not above the middle of a <= b: a float x lies above the middle exactly when it is larger.
float boundary_between(float a, float b);

/// codes[i] = the number of bounds below x[i]. `bounds` has 2^levels entries, ascending, the last ones infinite
/// (at least the last one), 1 <= levels <= 8.
void count_below_scalar(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes);
void count_below_avx2(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes);
void count_below_avx512(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes);
void count_below_neon(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes);

}  // namespace nibble::quant::assign_kernels
