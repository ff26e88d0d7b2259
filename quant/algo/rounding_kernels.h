#pragma once

#include <cstddef>
#include <cstdint>

// The two passes of round_blocks() over one row, per instruction set. All sets give the same codes.
namespace nibble::quant::rounding_kernels {

/// Least and largest value of each block of `block` inputs (the last one may be shorter). Requires finite values.
void block_extremes_scalar(const float* row, std::size_t count, std::size_t block, float* low, float* high);
void block_extremes_avx2(const float* row, std::size_t count, std::size_t block, float* low, float* high);
void block_extremes_avx512(const float* row, std::size_t count, std::size_t block, float* low, float* high);

/// codes[j] = clamp(round_half_even(row[j] / scale) + zero, 0, top), with scale and zero of j's block; scale 0 gives
/// code zero. Zeros and top are integers held as floats.
void round_row_scalar(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes);
void round_row_avx2(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                    float top, std::uint8_t* codes);
void round_row_avx512(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes);

}  // namespace nibble::quant::rounding_kernels
