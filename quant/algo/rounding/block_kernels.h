#pragma once

#include <cstddef>
#include <cstdint>

// Passes over a row in blocks, per instruction set: what round_blocks() and finite_range() run. All sets give the same.
namespace nibble::quant::block_kernels {

/// Least and largest value of each block of `block` values (the last one may be shorter). False, and nothing is said
/// about these, when a value is NaN or infinite.
bool block_extremes_scalar(const float* row, std::size_t count, std::size_t block, float* low, float* high);
bool block_extremes_avx2(const float* row, std::size_t count, std::size_t block, float* low, float* high);
bool block_extremes_avx512(const float* row, std::size_t count, std::size_t block, float* low, float* high);
bool block_extremes_neon(const float* row, std::size_t count, std::size_t block, float* low, float* high);

/// codes[j] = clamp(round_half_even(row[j] · (1 / scale)) + zero, 0, top), with scale and zero of j's block; scale 0
/// gives code zero. Zeros and top are integers held as floats.
void round_row_scalar(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes);
void round_row_avx2(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                    float top, std::uint8_t* codes);
void round_row_avx512(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes);
void round_row_neon(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                    float top, std::uint8_t* codes);

struct Kernels {
  decltype(&block_extremes_scalar) block_extremes;
  decltype(&round_row_scalar) round_row;
};
/// Those of the instruction set in force.
Kernels active();

}  // namespace nibble::quant::block_kernels
