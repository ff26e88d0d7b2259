#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "quant/algo/kmeans/grains.h"
#include "quant/algo/kmeans/segmentation.h"

namespace nibble::quant {

/// Finds optimal segmentations into many clusters, in time that does not grow with their number.
///
/// The best gain is a concave function of the number of clusters. So at a price per cluster that lies between the gains
/// which the k-th and the (k+1)-th cluster bring, the best segmentation of all (gain minus price, any number of
/// clusters) is one into k clusters, and the best of these. One pass over the grains finds it for a given price: the
/// best cut before each grain, which never moves back. The price is searched between bounds, guessed from the number of
/// clusters falling with its cube root, as for smooth densities.
///
/// Thread-compatible; an object keeps its buffers between calls.
class PricedSegmenter {
 public:
  /// Requires 2 <= k < grains.size() and exact grains. Empty when no price gives exactly k clusters: in data so regular
  /// that several clusters bring the same gain. Each pass costs about 100 cycles per grain; there are about ten.
  std::optional<Segmentation> solve(const Grains& grains, std::size_t k);

 private:
  std::size_t cut_at_price(const Grains& grains, double price);
  void finish_block(std::size_t row, std::size_t rows, double price);

  PrefixSums weight_, moment_;  ///< of the grains, padded for vector loads
  std::vector<double> best_;    ///< (m + 1): gain minus price of the best clusters of grains 0 … j - 1
  std::vector<std::int32_t> cut_;
  double least_weight_ = 0.0;
};

}  // namespace nibble::quant
