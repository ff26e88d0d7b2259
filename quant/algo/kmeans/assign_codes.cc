#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/machine/isa.h"
#include "quant/algo/kmeans/assign_kernels.h"
#include "quant/algo/kmeans/palette.h"

namespace nibble::quant {
namespace assign_kernels {

float boundary_between(float a, float b) {
  const double middle = 0.5 * (static_cast<double>(a) + static_cast<double>(b));
  const auto rounded = static_cast<float>(middle);
  return static_cast<double>(rounded) > middle ? std::nextafter(rounded, -std::numeric_limits<float>::infinity())
                                               : rounded;
}

void count_below_scalar(const float* x, std::size_t count, const float* bounds, unsigned levels, std::uint8_t* codes) {
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t index = 0;
    for (std::size_t half = std::size_t{1} << levels >> 1; half > 0; half /= 2)
      index += bounds[index + half - 1] < x[i] ? half : 0;
    codes[i] = static_cast<std::uint8_t>(index);
  }
}

}  // namespace assign_kernels

namespace {

void count_below(std::span<const float> x, const float* bounds, unsigned levels, std::uint8_t* codes) {
  static const auto kernel = choose_variant(
      assign_kernels::count_below_scalar, NIBBLE_AVX2_VARIANT(assign_kernels::count_below_avx2),
      NIBBLE_AVX512_VARIANT(assign_kernels::count_below_avx512), NIBBLE_NEON_VARIANT(assign_kernels::count_below_neon));
  kernel(x.data(), x.size(), bounds, levels, codes);
}

}  // namespace

void assign_codes(std::span<const float> x, std::span<const float> centroids, std::span<std::uint8_t> codes) {
  const std::size_t k = centroids.size();
  NIBBLE_REQUIRE(k >= 1 && k <= 256, InvalidArgument, "assign_codes: expected 1 to 256 centroids, got {}", k);
  NIBBLE_REQUIRE(codes.size() == x.size(), InvalidArgument, "assign_codes: {} values but {} codes", x.size(),
                 codes.size());
  for (std::size_t c = 0; c < k; ++c)
    NIBBLE_REQUIRE(std::isfinite(centroids[c]) && (c == 0 || centroids[c - 1] <= centroids[c]), InvalidArgument,
                   "assign_codes: centroids must be finite and ascending; centroid {} is {}", c, centroids[c]);
  // Equal centroids count once: `first` leads back to the lowest index of each distinct one.
  std::array<float, 256> bounds;
  std::array<std::uint8_t, 256> first{};
  bounds.fill(std::numeric_limits<float>::infinity());
  std::size_t distinct = 1;
  for (std::size_t c = 1; c < k; ++c) {
    if (centroids[c] == centroids[c - 1]) continue;
    bounds[distinct - 1] = assign_kernels::boundary_between(centroids[c - 1], centroids[c]);
    first[distinct++] = static_cast<std::uint8_t>(c);
  }
  unsigned levels = 1;
  while (std::size_t{1} << levels < distinct) ++levels;
  count_below(x, bounds.data(), levels, codes.data());
  if (distinct < k)
    for (std::uint8_t& code : codes) code = first[code];
}

namespace {

/// palette_cost() of values that come piece by piece: the same bits for any pieces.
class CostSum {
 public:
  explicit CostSum(std::span<const float> centroids) : centroids_(centroids) {}

  void add(std::span<const float> x, std::span<const float> w) {
    std::array<std::uint8_t, kChunk> codes;
    for (std::size_t begin = 0; begin < x.size(); begin += kChunk) {
      const auto chunk = x.subspan(begin, std::min(kChunk, x.size() - begin));
      assign_codes(chunk, centroids_, std::span(codes).first(chunk.size()));
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        const double error = static_cast<double>(chunk[i]) - static_cast<double>(centroids_[codes[i]]);
        sums_[(first_ + i) % kLanes] += (w.empty() ? 1.0 : static_cast<double>(w[begin + i])) * (error * error);
      }
      first_ = (first_ + chunk.size()) % kLanes;
    }
  }

  double value() const {
    double total = 0.0;
    for (const double sum : sums_) total += sum;
    return total;
  }

 private:
  static constexpr std::size_t kChunk = 1024, kLanes = 8;
  std::span<const float> centroids_;
  std::array<double, kLanes> sums_{};  // of every eighth value: one sum would wait for each addition
  std::size_t first_ = 0;              // the sum of the next value
};

}  // namespace

double palette_cost(std::span<const float> x, std::span<const float> w, std::span<const float> centroids) {
  NIBBLE_REQUIRE(w.empty() || w.size() == x.size(), InvalidArgument, "palette_cost: {} values but {} weights", x.size(),
                 w.size());
  CostSum cost(centroids);
  cost.add(x, w);
  return cost.value();
}

double palette_cost(const WeightedValues& values, std::span<const float> centroids) {
  CostSum cost(centroids);
  values.walk([&](std::span<const float> x, std::span<const float> w) { cost.add(x, w); });
  return cost.value();
}

}  // namespace nibble::quant
