#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/machine/large_buffer.h"

namespace nibble::quant {

/// A sum in twice double precision: high + low.
struct TwiceSum {
  double high = 0.0, low = 0.0;

  void add(double term) {
    const double sum = high + term, back = sum - high;
    low += (high - (sum - back)) + (term - back);  // the exact error of the addition (Knuth)
    high = sum;
  }
  double value() const { return high + low; }
};

/// Prefix sums in twice double precision. Differences of entries are right to about a unit of their own last place,
/// also where a few values far out make the totals huge.
struct PrefixSums {
  LargeVector<double> high, low;

  std::size_t size() const { return high.size(); }
  void resize(std::size_t count) {
    high.resize(count);
    low.resize(count);
  }
  TwiceSum at(std::size_t i) const { return {high[i], low[i]}; }
  void set(std::size_t i, TwiceSum sum) {
    high[i] = sum.high;
    low[i] = sum.low;
  }
  double between(std::size_t i, std::size_t j) const { return (high[j] - high[i]) + (low[j] - low[i]); }
};

/// Weighted values in ascending order, grouped into m grains: the finest things that a Segmenter looks at. Values are
/// relative to an origin, so that sums do not cancel.
struct Grains {
  LargeVector<double> x;            ///< (m + 1), ascending: the values of grain g lie in [x[g], x[g + 1]]
  PrefixSums weight;                ///< (m + 1), of w: entry g is the sum over grains 0 … g - 1
  PrefixSums moment;                ///< (m + 1), of w · value
  LargeVector<std::uint8_t> exact;  ///< (m): 1 when all values of the grain are x[g]
  double second_moment = 0.0;       ///< sum of w · value² over everything

  std::size_t size() const { return exact.size(); }
};

/// Writes Grains one after the other. A copy goes on where the other stands: in a loop of its own, it lives in
/// registers.
class GrainWriter {
 public:
  /// Makes room for up to `capacity` grains.
  GrainWriter(Grains& grains, std::size_t capacity);
  /// Values in [x, the next grain's x].
  void add(double x, double weight, double moment, bool exact) {
    weight_.add(weight);
    write(x, moment, exact);
  }
  /// `count` times `x` of weight 1, `moment` = count · x: the same bits, for sums of integers are exact.
  void add_equal(double x, std::size_t count, double moment) {
    weight_.high += static_cast<double>(count);
    write(x, moment, true);
  }
  std::size_t size() const { return count_; }
  /// `end`: no value is larger. `second_moment` as in Grains.
  void finish(double end, double second_moment);

 private:
  void write(double x, double moment, bool exact) {
    moment_.add(moment);
    x_[count_] = x;
    exact_[count_] = exact ? 1 : 0;
    ++count_;
    weight_high_[count_] = weight_.high;
    weight_low_[count_] = weight_.low;
    moment_high_[count_] = moment_.high;
    moment_low_[count_] = moment_.low;
  }

  Grains* grains_;
  double *x_, *weight_high_, *weight_low_, *moment_high_, *moment_low_;
  std::uint8_t* exact_;
  std::size_t count_ = 0;
  TwiceSum weight_, moment_;
};

/// The origin for values in [low, high]: what in there is nearest to 0. No value is smaller in magnitude, so
/// float(origin + double(x - origin)) is x again.
inline double origin_of(float low, float high) { return static_cast<double>(std::clamp(0.0f, low, high)); }

/// An integer that sorts like the value (-0 before +0), and back.
inline std::uint32_t sort_key(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return bits ^ (bits >> 31 != 0 ? ~std::uint32_t{0} : std::uint32_t{1} << 31);
}
inline float value_of_key(std::uint32_t key) {
  return std::bit_cast<float>(key ^ (key >> 31 != 0 ? std::uint32_t{1} << 31 : ~std::uint32_t{0}));
}

/// A value and its weight in one integer that sorts like the value (-0 before +0).
std::uint64_t pack_weighted(float x, float w);
float unpack_value(std::uint64_t packed);
float unpack_weight(std::uint64_t packed);

/// Sorts packed pairs by value (radix sort; digits in which all agree cost one look). `scratch` is resized as needed.
void sort_weighted(LargeVector<std::uint64_t>& pairs, LargeVector<std::uint64_t>& scratch);

/// Appends sorted pairs, equal values merged, relative to `origin`; returns their sum of w · value². Needs room for
/// pairs.size() more grains.
double add_sorted_values(std::span<const std::uint64_t> pairs, double origin, GrainWriter& writer);

/// The same for values that all have weight 1, as keys.
void sort_keys(LargeVector<std::uint32_t>& keys, LargeVector<std::uint32_t>& scratch);
double add_sorted_keys(std::span<const std::uint32_t> keys, double origin, GrainWriter& writer);

}  // namespace nibble::quant
