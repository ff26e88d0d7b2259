#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

// The inner loop of Segmenter, per instruction set. All sets give the same bits.
namespace nibble::quant::segmentation_kernels {

constexpr std::size_t kRows = 8;  ///< rows per call

/// Prefix sums of weights and moments, each as high + low (PrefixSums of quant/algo/kmeans/grains.h).
struct Prefixes {
  const double *weight_high, *weight_low, *moment_high, *moment_low;
};

/// moment(i, r)² / max(weight(i, r), least_weight), where (i, r) is the difference of entries r and i of a prefix sum.
inline double gain_between(const Prefixes& sums, std::size_t i, std::size_t r, double least_weight) {
  const double s = (sums.moment_high[r] - sums.moment_high[i]) + (sums.moment_low[r] - sums.moment_low[i]);
  const double w = (sums.weight_high[r] - sums.weight_high[i]) + (sums.weight_low[r] - sums.weight_low[i]);
  return s * s / std::max(w, least_weight);
}

/// For the rows r = row … row + 7, over i = first … last:
///   best[r] = max of best[i] + gain_between(sums, i, r, least_weight), less the price
/// and cut[r] = the first i that reaches it. Requires first <= last < row; arrays of row + 8 entries; a least_weight
/// and squares that are normal numbers, the squares also once divided (or 0), for kernels that divide by a reciprocal.
void best_cuts_scalar(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                      std::size_t row, double* best, std::int32_t* cut);
void best_cuts_avx2(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                    std::size_t row, double* best, std::int32_t* cut);
void best_cuts_avx512(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                      std::size_t row, double* best, std::int32_t* cut);
void best_cuts_neon(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                    std::size_t row, double* best, std::int32_t* cut);

/// That of the instruction set in force.
decltype(&best_cuts_scalar) active();

}  // namespace nibble::quant::segmentation_kernels
