#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::quant {

/// Weighted values in ascending order, grouped into m grains: the finest things that a Segmenter looks at. Values are
/// relative to some origin near their middle, so that sums do not cancel.
struct Grains {
  std::vector<double> x;            ///< (m + 1), ascending: the values of grain g lie in [x[g], x[g + 1]]
  std::vector<double> weight;       ///< (m + 1), prefix sums of w: weight[g] is that of grains 0 … g - 1
  std::vector<double> moment;       ///< (m + 1), prefix sums of w · value
  std::vector<std::uint8_t> exact;  ///< (m): 1 when all values of the grain are x[g]
  double second_moment = 0.0;       ///< sum of w · value² over everything

  std::size_t size() const { return exact.size(); }
};

/// Writes Grains one after the other. Sums are compensated, so that a prefix of millions of terms is still right to a
/// unit or two of its last place.
class GrainWriter {
 public:
  /// Makes room for up to `capacity` grains.
  GrainWriter(Grains& grains, std::size_t capacity);
  /// Values in [x, the next grain's x]; `second_moment` is their sum of w · value².
  void add(double x, double weight, double moment, double second_moment, bool exact) {
    grains_.x[count_] = x;
    grains_.exact[count_] = exact ? 1 : 0;
    weight_.add(weight);
    moment_.add(moment);
    second_moment_.add(second_moment);
    ++count_;
    grains_.weight[count_] = weight_.value();
    grains_.moment[count_] = moment_.value();
  }
  /// All of `weight` at x.
  void add_value(double x, double weight) { add(x, weight, weight * x, weight * x * x, true); }
  /// `end`: no value is larger.
  void finish(double end);

 private:
  /// Blocks of terms are summed plainly, and block sums with Kahan's compensation.
  class Sum {
   public:
    void add(double term) {
      block_ += term;
      if (++terms_ == kBlock) fold();
    }
    double value() const { return high_ + (low_ + block_); }

   private:
    static constexpr int kBlock = 32;
    void fold();
    double high_ = 0.0, low_ = 0.0, block_ = 0.0;
    int terms_ = 0;
  };
  Grains& grains_;
  std::size_t count_ = 0;
  Sum weight_, moment_, second_moment_;
};

/// A value and its weight in one integer that sorts like the value (-0 before +0).
std::uint64_t pack_weighted(float x, float w);
float unpack_value(std::uint64_t packed);
float unpack_weight(std::uint64_t packed);

/// Sorts packed pairs by value (radix sort; digits in which all agree cost one look). `scratch` is resized as needed.
void sort_weighted(std::vector<std::uint64_t>& pairs, std::vector<std::uint64_t>& scratch);

/// Appends sorted pairs, equal values merged, relative to `origin`. Needs room for pairs.size() more grains.
void add_sorted_values(std::span<const std::uint64_t> pairs, double origin, GrainWriter& writer);

}  // namespace nibble::quant
