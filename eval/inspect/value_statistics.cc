#include "eval/inspect/value_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nibble::eval {

void ValueSums::add(std::span<const float> values) {
  ValueSums piece;
  piece.min_ = std::numeric_limits<double>::infinity(), piece.max_ = -piece.min_;
  double sum = 0.0;
  for (const float value : values) {
    if (std::isnan(value)) {
      ++piece.nan_count_;
    } else if (std::isinf(value)) {
      ++piece.infinities_;
    } else {
      ++piece.count_;
      sum += static_cast<double>(value);
      piece.min_ = std::min(piece.min_, static_cast<double>(value));
      piece.max_ = std::max(piece.max_, static_cast<double>(value));
    }
  }
  if (piece.count_ > 0) piece.mean_ = sum / static_cast<double>(piece.count_);
  for (const float value : values)
    if (std::isfinite(value)) {
      const double difference = static_cast<double>(value) - piece.mean_;
      piece.squares_ += difference * difference;
    }
  merge(piece);
}

void ValueSums::merge(const ValueSums& other) {
  nan_count_ += other.nan_count_;
  infinities_ += other.infinities_;
  if (other.count_ == 0) return;
  if (count_ == 0) {
    min_ = other.min_, max_ = other.max_;
  }
  const auto mine = static_cast<double>(count_), theirs = static_cast<double>(other.count_);
  const double distance = other.mean_ - mean_;
  squares_ += other.squares_ + distance * distance * mine * theirs / (mine + theirs);
  mean_ += distance * theirs / (mine + theirs);
  count_ += other.count_;
  min_ = std::min(min_, other.min_), max_ = std::max(max_, other.max_);
}

ValueStatistics ValueSums::statistics() const {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (count_ == 0) return {nan, nan, nan, nan, nan, nan_count_, infinities_};
  const double variance = squares_ / static_cast<double>(count_);
  const double largest = std::max(std::abs(min_), std::abs(max_));
  const double root_mean_square = std::sqrt(variance + mean_ * mean_);
  return {min_,       max_,       mean_, std::sqrt(variance), root_mean_square > 0.0 ? largest / root_mean_square : nan,
          nan_count_, infinities_};
}

}  // namespace nibble::eval
