#include "quant/algo/kmeans/priced_segmentation.h"

#include <algorithm>
#include <cmath>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant {
namespace {

using segmentation_kernels::kRows;
constexpr double kNarrowest = 1e-9;  // relative width of the bounds at which k clusters are given up

}  // namespace

/// The rows of a block whose best cut before the block is known: cuts inside the block, one row after the other.
void PricedSegmenter::finish_block(std::size_t row, std::size_t rows, double price) {
  for (std::size_t r = row; r < row + rows; ++r) {
    for (std::size_t i = row; i < r; ++i) {
      const double moment = moment_.between(i, r);
      const double gain = best_[i] + moment * moment / std::max(weight_.between(i, r), least_weight_);
      if (gain > best_[r]) {
        best_[r] = gain;
        cut_[r] = static_cast<std::int32_t>(i);
      }
    }
    best_[r] -= price;
  }
}

/// Fills best_ and cut_; returns the number of clusters.
std::size_t PricedSegmenter::cut_at_price(const Grains& grains, double price) {
  const auto best_cuts = segmentation_kernels::active();
  const std::size_t m = grains.size();
  const segmentation_kernels::Prefixes sums{weight_.high.data(), weight_.low.data(), moment_.high.data(),
                                            moment_.low.data()};
  best_[0] = 0.0;
  cut_[0] = 0;
  for (std::size_t row = 1; row <= m; row += kRows) {
    const auto first = static_cast<std::size_t>(cut_[row - 1]);
    best_cuts(sums, best_.data(), least_weight_, row, first, row - 1, best_.data() + row, cut_.data() + row);
    finish_block(row, std::min(kRows, m + 1 - row), price);
  }
  std::size_t clusters = 0;
  for (std::size_t end = m; end > 0; end = static_cast<std::size_t>(cut_[end])) ++clusters;
  return clusters;
}

std::optional<Segmentation> PricedSegmenter::solve(const Grains& grains, std::size_t k) {
  const std::size_t m = grains.size();
  weight_ = grains.weight;
  moment_ = grains.moment;
  weight_.resize(m + 1 + kRows);
  moment_.resize(m + 1 + kRows);
  best_.resize(m + 1 + kRows);
  cut_.resize(m + 1 + kRows);
  least_weight_ = std::ldexp(grains.weight.between(0, m), -70);

  // More than k clusters at `low`, fewer at `high`.
  double low = 0.0, high = grains.second_moment;
  double price = high / std::pow(static_cast<double>(k), 3.0);
  while (high - low > kNarrowest * high) {
    const std::size_t clusters = cut_at_price(grains, price);
    if (clusters == k) {
      Segmentation result;
      for (auto end = static_cast<std::size_t>(cut_[m]); end > 0; end = static_cast<std::size_t>(cut_[end]))
        result.cuts.push_back(end);
      std::reverse(result.cuts.begin(), result.cuts.end());
      result.gain = gain_of(grains, result.cuts);
      result.gain_bound = result.gain + rounding_allowance(grains, k);
      result.optimal = true;
      return result;
    }
    (clusters > k ? low : high) = price;
    price *= std::pow(static_cast<double>(clusters) / static_cast<double>(k), 3.0);
    if (!(low < price && price < high)) price = low > 0.0 ? 0.5 * (low + high) : 0.001 * high;
  }
  return std::nullopt;
}

}  // namespace nibble::quant
