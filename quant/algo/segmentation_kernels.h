#pragma once

#include <cstddef>
#include <cstdint>

// The inner loop of Segmenter, per instruction set. All sets give the same bits.
namespace nibble::quant::segmentation_kernels {

constexpr std::size_t kRows = 8;  ///< rows per call

/// For the rows r = row … row + 7, over i = first … min(last, r):
///   gain[r - row] = max of previous[i] + (moment[r] - moment[i])² / max(weight[r] - weight[i], least_weight)
/// and cut[r - row] = the first i that reaches it. Requires first <= row; arrays readable up to row + 7.
void best_cuts_scalar(const double* weight, const double* moment, const double* previous, double least_weight,
                      std::size_t row, std::size_t first, std::size_t last, double* gain, std::int32_t* cut);
void best_cuts_avx2(const double* weight, const double* moment, const double* previous, double least_weight,
                    std::size_t row, std::size_t first, std::size_t last, double* gain, std::int32_t* cut);
void best_cuts_avx512(const double* weight, const double* moment, const double* previous, double least_weight,
                      std::size_t row, std::size_t first, std::size_t last, double* gain, std::int32_t* cut);

}  // namespace nibble::quant::segmentation_kernels
