#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/algo/kmeans/grains.h"
#include "quant/algo/kmeans/weighted_values.h"

namespace nibble::quant {

/// What one walk over values finds out before they are put into bins.
struct ValueSummary {
  float low = 0.0f, high = 0.0f;
  std::vector<float> sample;  ///< evenly spaced in their order
};

/// Groups millions of values into fine bins without sorting them, as inexact grains, and later sorts those bins that
/// turn out to matter.
///
/// 2^16 bins of equal width on either side of the origin reach to 4 to 8 mean deviations from there (those of a
/// sample); beyond, there are 1024 per power of two, so that a few huge values do not make all bins wide. Widths are
/// powers of two: a value's bin and a bin's edges are exact.
class ValueBins {
 public:
  /// Fills the bins: one walk. Values of weight 0 are left out. Requires x finite, not empty, w >= 0, and `values`
  /// alive as long as grains are asked for.
  void fill(const WeightedValues& values, const ValueSummary& summary);

  /// Writes all bins that hold weight as grains, those opened as single values.
  void write(Grains& grains);

  /// Opens the bins of the marked grains (of the last write()), in one more walk. False when none of them was
  /// still closed.
  bool open(std::span<const std::uint8_t> marked);

  double origin() const { return origin_; }

 private:
  struct Bin {
    double weight = 0.0, moment = 0.0;
  };
  void place_bins(const ValueSummary& summary);
  std::size_t bin_of(double relative) const;
  double lower_edge(std::size_t bin) const;

  const WeightedValues* values_ = nullptr;
  double origin_ = 0.0, bins_per_unit_ = 1.0, unit_ = 1.0, second_moment_ = 0.0, end_ = 0.0;
  std::int64_t lowest_ = 0;  ///< signed number of the first bin
  LargeVector<Bin> bins_;
  std::vector<std::uint8_t> is_open_;  ///< by bin
  LargeVector<std::uint64_t> pairs_, scratch_;
  LargeVector<std::uint32_t> grain_bins_;
};

}  // namespace nibble::quant
