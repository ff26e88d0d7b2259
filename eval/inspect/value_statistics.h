#pragma once

#include <cstdint>
#include <span>

namespace nibble::eval {

/// Statistics of a tensor's values, as decoded. Over finite values only; NaN where there are none.
struct ValueStatistics {
  double min = 0.0, max = 0.0, mean = 0.0;
  double deviation = 0.0;        ///< standard deviation around the mean, ddof 0
  double outlier_ratio = 0.0;    ///< max |w| / root mean square; NaN if all are 0
  std::uint64_t nan_count = 0;   ///< NaN values
  std::uint64_t infinities = 0;  ///< infinite values
};

/// Sums over one piece of a tensor, in double, that combine to the sums over all of it. The deviation does not cancel
/// for large means: squares are summed around each piece's mean (Chan, Golub, LeVeque 1979).
class ValueSums {
 public:
  void add(std::span<const float> values);
  /// Adds another piece. Order matters in the last bits: merge in a fixed order.
  void merge(const ValueSums& other);
  ValueStatistics statistics() const;

 private:
  std::uint64_t count_ = 0, nan_count_ = 0, infinities_ = 0;
  double min_ = 0.0, max_ = 0.0, mean_ = 0.0, squares_ = 0.0;  // sum of (w - mean)²
};

}  // namespace nibble::eval
