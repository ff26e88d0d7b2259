// PaletteFitter against brute force and against what must hold for any input.
#include "quant/algo/kmeans/palette.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::near;
using test::same_bits;
using test::throws_with;

struct Sample {
  std::vector<float> x, w;
};

/// Cost of one cluster about its weighted mean, by two plain passes.
double cluster_cost(const Sample& sorted, std::size_t begin, std::size_t end) {
  double weight = 0.0, moment = 0.0, cost = 0.0;
  for (std::size_t i = begin; i < end; ++i) {
    weight += static_cast<double>(sorted.w[i]);
    moment += static_cast<double>(sorted.w[i]) * static_cast<double>(sorted.x[i]);
  }
  if (weight == 0.0) return 0.0;
  for (std::size_t i = begin; i < end; ++i) {
    const double error = static_cast<double>(sorted.x[i]) - moment / weight;
    cost += static_cast<double>(sorted.w[i]) * error * error;
  }
  return cost;
}

Sample sorted(const Sample& sample) {
  std::vector<std::size_t> order(sample.x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sample.x[a] < sample.x[b]; });
  Sample result;
  for (const std::size_t i : order) {
    result.x.push_back(sample.x[i]);
    result.w.push_back(sample.w.empty() ? 1.0f : sample.w[i]);
  }
  return result;
}

/// Least cost over every way to cut values [begin, n) into at most k runs: all of them, one after the other.
double try_all_cuts(const Sample& sorted_sample, std::size_t begin, std::size_t k) {
  const std::size_t n = sorted_sample.x.size();
  double best = cluster_cost(sorted_sample, begin, n);
  if (k == 1) return best;
  for (std::size_t end = begin + 1; end < n; ++end)
    best = std::min(best, cluster_cost(sorted_sample, begin, end) + try_all_cuts(sorted_sample, end, k - 1));
  return best;
}

/// The same by a plain O(k n²) dynamic program, every cluster's cost by plain passes.
double optimal_cost(const Sample& sample, std::size_t k) {
  const Sample s = sorted(sample);
  const std::size_t n = s.x.size();
  std::vector<double> best(n + 1, 0.0);
  for (std::size_t j = 1; j <= n; ++j) best[j] = cluster_cost(s, 0, j);
  std::vector<std::vector<double>> cost(n, std::vector<double>(n + 1, 0.0));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j <= n; ++j) cost[i][j] = cluster_cost(s, i, j);
  for (std::size_t q = 1; q < k; ++q)
    for (std::size_t j = n; j > 0; --j)
      for (std::size_t i = 0; i < j; ++i) best[j] = std::min(best[j], best[i] + cost[i][j]);
  return best[n];
}

/// Values of kinds that quantizers meet and of kinds that break them.
Sample draw(Random& random, std::size_t n, std::uint64_t kind, bool weighted) {
  Sample sample;
  for (std::size_t i = 0; i < n; ++i) {
    double x = random.normal();
    if (kind == 1) x = static_cast<double>(random.below(12));                            // many ties
    if (kind == 2) x = std::exp(3.0 * x) * (random.below(2) == 0 ? 1.0 : -1.0);          // heavy tails
    if (kind == 3) x = 1e-3 * x + static_cast<double>(random.below(5));                  // clusters
    if (kind == 4) x = random.below(50) == 0 ? 1000.0 * x : x;                           // outliers
    if (kind == 5) x = std::ldexp(x, -140);                                              // subnormal floats
    if (kind == 6) x = static_cast<double>(round_to_f16(static_cast<float>(0.02 * x)));  // weights of a checkpoint
    sample.x.push_back(static_cast<float>(x));
    if (weighted) sample.w.push_back(static_cast<float>(random.below(6) == 0 ? 0.0 : std::exp(2.0 * random.normal())));
  }
  return sample;
}
constexpr std::uint64_t kKinds = 7;

/// Rounding of centroids to float adds W·(half an ulp)² to the optimum of real centroids; subnormal floats have few
/// digits, so there this is much.
double float_rounding(const Sample& sample, const Palette& palette) {
  double weight = 0.0;
  for (std::size_t i = 0; i < sample.x.size(); ++i) weight += sample.w.empty() ? 1.0 : static_cast<double>(sample.w[i]);
  double ulp = 0.0;
  for (const float c : palette.centroids)
    ulp = std::max(ulp, static_cast<double>(std::nextafter(std::abs(c), HUGE_VALF)) - static_cast<double>(std::abs(c)));
  return weight * 0.25 * ulp * ulp;
}

/// At the optimum, to 1e-9 (double sums of up to a few hundred terms of mixed size) and the rounding of centroids.
testing::AssertionResult is_optimal(const Sample& sample, const Palette& palette, double optimum) {
  const double rounding = float_rounding(sample, palette);
  if (!(palette.cost <= optimum * (1.0 + 1e-9) + rounding))
    return testing::AssertionFailure() << "cost " << palette.cost << ", optimum " << optimum;
  if (!(palette.lower_bound <= optimum * (1.0 + 1e-9)))
    return testing::AssertionFailure() << "lower bound " << palette.lower_bound << " above the optimum " << optimum;
  if (!std::is_sorted(palette.centroids.begin(), palette.centroids.end()))
    return testing::AssertionFailure() << "centroids are not ascending";
  return testing::AssertionSuccess();
}

/// Weighted k-means++ and Lloyd to the end, on sorted values.
double lloyd_cost(const Sample& sample, std::size_t k, Random& random) {
  const auto weight = [&](std::size_t i) { return sample.w.empty() ? 1.0 : static_cast<double>(sample.w[i]); };
  std::vector<float> centroids{sample.x[random.below(sample.x.size())]};
  std::vector<double> distance(sample.x.size());
  while (centroids.size() < k) {
    double total = 0.0;
    for (std::size_t i = 0; i < sample.x.size(); ++i) {
      double nearest = HUGE_VAL;
      for (const float c : centroids)
        nearest = std::min(nearest, std::pow(static_cast<double>(sample.x[i]) - static_cast<double>(c), 2));
      total += distance[i] = weight(i) * nearest;
    }
    double target = random.uniform() * total;
    std::size_t chosen = 0;
    while (chosen + 1 < sample.x.size() && (target -= distance[chosen]) > 0.0) ++chosen;
    centroids.push_back(sample.x[chosen]);
  }
  std::sort(centroids.begin(), centroids.end());
  std::vector<std::uint8_t> codes(sample.x.size());
  for (int step = 0; step < 50; ++step) {
    assign_codes(sample.x, centroids, codes);
    std::vector<double> weights(k), moments(k);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      weights[codes[i]] += weight(i);
      moments[codes[i]] += weight(i) * static_cast<double>(sample.x[i]);
    }
    for (std::size_t c = 0; c < k; ++c)
      if (weights[c] > 0.0) centroids[c] = static_cast<float>(moments[c] / weights[c]);
    std::sort(centroids.begin(), centroids.end());
  }
  return palette_cost(sample.x, sample.w, centroids);
}

TEST(FitPalette, EqualsTheBestOfAllCutsOnSmallInputs) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::size_t n = 1 + random.below(9), k = 1 + random.below(n + 1);
    const Sample sample = draw(random, n, random.below(kKinds), random.below(2) == 0);
    Sample counted = sample;  // weights that are all zero count as ones
    if (std::all_of(sample.w.begin(), sample.w.end(), [](float w) { return w == 0.0f; })) counted.w.clear();
    const Palette palette = fit_palette(sample.x, sample.w, {.centroids = k});
    ASSERT_EQ(palette.centroids.size(), k);
    EXPECT_TRUE(is_optimal(counted, palette, try_all_cuts(sorted(counted), 0, k)));
  }
}

TEST(FitPalette, EqualsThePlainDynamicProgramOnRandomRows) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(1000 + seed);
    const std::size_t n = 20 + random.below(180), k = 1 + random.below(20);
    const Sample sample = draw(random, n, seed % kKinds, seed % 2 == 0);
    EXPECT_TRUE(is_optimal(sample, fit_palette(sample.x, sample.w, {.centroids = k}), optimal_cost(sample, k)));
  }
}

TEST(FitPalette, IsNeverWorseThanLloydOnLongRows) {
  for (std::uint64_t seed = 0; seed < 2 * kKinds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(2000 + seed);
    const Sample sample = draw(random, 3000, seed % kKinds, seed % 2 == 0);
    const Palette palette = fit_palette(sample.x, sample.w, {.centroids = 16});
    // Lloyd's centroids are floats too, so only the sums' rounding separates a tie.
    EXPECT_LE(palette.cost, lloyd_cost(sample, 16, random) * (1.0 + 1e-9) + float_rounding(sample, palette));
    EXPECT_LE(palette.cost - palette.lower_bound, 1e-9 * palette.cost + float_rounding(sample, palette));
  }
}

TEST(FitPalette, WeightsOfOneChangeNoBit) {  // values without weights are sorted and summed by code of their own
  for (std::uint64_t kind = 0; kind < kKinds; ++kind) {
    Random random(4000 + kind);
    Sample sample = draw(random, 3000, kind, false);
    sample.x[7] = 0.0f;
    sample.x[8] = -0.0f;
    const Palette without = fit_palette(sample.x, {}, {.centroids = 16});
    const Palette with = fit_palette(sample.x, std::vector<float>(sample.x.size(), 1.0f), {.centroids = 16});
    EXPECT_TRUE(test::same_bits(without.centroids, with.centroids)) << kind;
    EXPECT_EQ(without.cost, with.cost) << kind;
    EXPECT_EQ(without.lower_bound, with.lower_bound) << kind;
  }
}

TEST(FitPalette, ManyCentroidsAreOptimalToo) {
  for (const std::size_t k : {64u, 200u, 256u}) {
    SCOPED_TRACE(testing::Message() << "k " << k);
    Random random(k);
    const Sample sample = draw(random, 300, 0, true);
    EXPECT_TRUE(is_optimal(sample, fit_palette(sample.x, sample.w, {.centroids = k}), optimal_cost(sample, k)));
  }
}

// Many clusters of equal gain: no price per cluster singles out one number of them.
TEST(FitPalette, ManyCentroidsOnARegularGridAreOptimalToo) {
  Sample grid;
  for (int i = 0; i < 300; ++i) grid.x.push_back(static_cast<float>(i));
  for (const std::size_t k : {64u, 70u, 100u, 250u}) {
    SCOPED_TRACE(testing::Message() << "k " << k);
    EXPECT_TRUE(is_optimal(grid, fit_palette(grid.x, {}, {.centroids = k}), optimal_cost(grid, k)));
  }
}

// Values beyond 65536 go through bins; the same values with their number of copies as weights go through sorting.
TEST(FitPalette, WholeTensorsEqualTheExactSolutionOfTheirDistinctValues) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(3000 + seed);
    const Sample distinct = draw(random, 9000, std::array<std::uint64_t, 4>{0, 2, 3, 4}[seed], false);
    Sample tensor, row;
    for (const float x : distinct.x) {
      const std::size_t copies = 1 + random.below(20);
      const auto weight = static_cast<float>(1 + random.below(100));
      for (std::size_t c = 0; c < copies; ++c) {
        tensor.x.push_back(x);
        tensor.w.push_back(weight);
      }
      row.x.push_back(x);
      row.w.push_back(weight * static_cast<float>(copies));
    }
    ASSERT_GT(tensor.x.size(), 65536u);
    const Palette expected = fit_palette(row.x, row.w, {.centroids = 16});
    const Palette exact = fit_palette(tensor.x, tensor.w, {.centroids = 16});
    EXPECT_TRUE(near(exact.cost, expected.cost, {.rel = 1e-9}));  // double sums of 1e5 terms
    EXPECT_LE(exact.cost - exact.lower_bound, 1e-9 * exact.cost + float_rounding(tensor, exact));
    const Palette close = fit_palette(tensor.x, tensor.w, {.centroids = 16, .gap = 1e-4});
    EXPECT_LE(close.gap(), 1e-4);
    EXPECT_LE(close.lower_bound, expected.cost * (1.0 + 1e-9));
    EXPECT_GE(close.cost, expected.cost * (1.0 - 1e-9));
  }
}

TEST(FitPalette, AllowedGapsHoldAndTheirBoundsAreBounds) {
  Random random(4);
  const Sample sample = draw(random, 400, 0, true);
  const double optimum = optimal_cost(sample, 8);
  for (const double gap : {0.5, 0.1, 1e-2, 1e-4}) {
    SCOPED_TRACE(testing::Message() << "gap " << gap);
    const Palette palette = fit_palette(sample.x, sample.w, {.centroids = 8, .gap = gap});
    EXPECT_LE(palette.gap(), gap);
    EXPECT_LE(palette.lower_bound, optimum);
    EXPECT_GE(palette.cost, optimum * (1.0 - 1e-12));
  }
}

TEST(FitPalette, FewDistinctValuesCostNothing) {
  const std::vector<float> x{2.0f, -1.0f, 2.0f, 0.5f, -1.0f, 2.0f};
  const Palette palette = fit_palette(x, {}, {.centroids = 6});
  EXPECT_EQ(palette.centroids, (std::vector<float>{-1.0f, 0.5f, 2.0f, 2.0f, 2.0f, 2.0f}));
  EXPECT_EQ(palette.cost, 0.0);
  EXPECT_EQ(palette.gap(), 0.0);
  EXPECT_EQ(fit_palette(std::vector<float>(100000, 0.0f), {}, {}).cost, 0.0);
  std::vector<float> two(100000, 0.1f);
  for (std::size_t i = 0; i < two.size(); i += 3) two[i] = 1e20f;
  const Palette both = fit_palette(two, {}, {.centroids = 3});
  EXPECT_EQ(both.centroids, (std::vector<float>{0.1f, 1e20f, 1e20f}));
  EXPECT_EQ(both.cost, 0.0);
}

TEST(FitPalette, OneValueAndOneCentroid) {
  EXPECT_EQ(fit_palette(std::vector<float>{0.3f}, {}, {.centroids = 1}).centroids, std::vector<float>{0.3f});
  const std::vector<float> x{1.0f, 2.0f, 6.0f}, w{1.0f, 1.0f, 2.0f};
  const Palette mean = fit_palette(x, w, {.centroids = 1});
  EXPECT_EQ(mean.centroids, std::vector<float>{3.75f});
  EXPECT_TRUE(near(mean.cost, 7.5625 + 3.0625 + 2 * 5.0625, {}));
}

TEST(FitPalette, ValuesWithoutWeightGetOnlyWhatIsLeft) {
  const std::vector<float> x{5.0f, 1.0f, 9.0f, 9.5f, 2.0f}, w{0.0f, 1.0f, 0.0f, 0.0f, 1.0f};
  EXPECT_EQ(fit_palette(x, w, {.centroids = 2}).centroids, (std::vector<float>{1.0f, 2.0f}));
  EXPECT_EQ(fit_palette(x, w, {.centroids = 4}).centroids, (std::vector<float>{1.0f, 2.0f, 5.0f, 9.25f}));
  EXPECT_EQ(fit_palette(x, std::vector<float>(5, 0.0f), {.centroids = 3}).centroids,
            fit_palette(x, {}, {.centroids = 3}).centroids);
}

TEST(FitPalette, LargeOffsetsDoNotCancel) {
  Random random(5);
  Sample near_zero, far;
  for (int i = 0; i < 2000; ++i) {
    const double step = std::round(64.0 * random.normal());  // multiples of 2^-13: exact in float beside 1024
    near_zero.x.push_back(static_cast<float>(step * 0x1p-13));
    far.x.push_back(static_cast<float>(1024.0 + step * 0x1p-13));
  }
  const Palette expected = fit_palette(near_zero.x, {}, {.centroids = 16});
  const Palette palette = fit_palette(far.x, {}, {.centroids = 16});
  // Centroids near 1024 are rounded to 2^-13 (half of it at most): about (2^-14)² / 3 per value on top.
  EXPECT_GE(palette.cost, expected.cost * (1.0 - 1e-9));
  EXPECT_LE(palette.cost, expected.cost + 2000.0 * 0x1p-28);
  EXPECT_TRUE(near(palette.lower_bound, expected.lower_bound, {.rel = 1e-9}));
}

TEST(FitPalette, HugeOutliersDoNotDrownTheRest) {
  for (const std::size_t n : {4000u, 70000u}) {  // more than 65,536 are binned, not sorted
    for (const double size : {1e2, 1e4, 1e6}) {
      SCOPED_TRACE(testing::Message() << n << " values, outlier " << size);
      Random random(6);
      Sample sample = draw(random, n, 0, false);
      const double expected = fit_palette(sample.x, {}, {.centroids = 14}).cost;
      sample.x.push_back(static_cast<float>(size));
      sample.x.push_back(static_cast<float>(-size));
      const Palette palette = fit_palette(sample.x, {}, {.centroids = 16});
      EXPECT_EQ(palette.centroids.front(), static_cast<float>(-size));
      EXPECT_EQ(palette.centroids.back(), static_cast<float>(size));
      // Sums hold 2·size²; the proof's rounding allowance is 24 units of its last place.
      const double rounding = 24 * 0x1p-53 * 2.0 * size * size;
      EXPECT_TRUE(near(palette.cost, expected, {.abs = 2 * rounding, .rel = 1e-6}));
      EXPECT_LE(palette.cost - palette.lower_bound, 1e-9 * expected + 4 * rounding);
    }
  }
}

TEST(FitPalette, ScalingByAPowerOfTwoIsExact) {
  for (const std::size_t n : {1000u, 70000u}) {
    Random random(7);
    const Sample sample = draw(random, n, 0, true);
    const Palette palette = fit_palette(sample.x, sample.w, {});
    Sample scaled = sample;
    for (float& x : scaled.x) x *= 0x1p20f;
    std::vector<float> expected = palette.centroids;
    for (float& c : expected) c *= 0x1p20f;
    EXPECT_TRUE(same_bits(fit_palette(scaled.x, scaled.w, {}).centroids, expected));
  }
}

// Where clusterings are level, which one is found hangs on every rounding on the way.
TEST(FitPalette, ScalingByAPowerOfTwoIsExactOnLattices) {
  for (std::size_t n = 3; n < 32; ++n) {
    for (std::size_t k = 2; k < n; ++k) {
      SCOPED_TRACE(testing::Message() << n << " values, " << k << " centroids");
      std::vector<float> x(n);
      std::iota(x.begin(), x.end(), 0.0f);
      const std::vector<float> palette = fit_palette(x, {}, {.centroids = k}).centroids;
      for (const float factor : {0x1p-7f, 2.0f, 4.0f}) {
        std::vector<float> scaled = x, expected = palette;
        for (float& value : scaled) value *= factor;
        for (float& c : expected) c *= factor;
        EXPECT_TRUE(same_bits(fit_palette(scaled, {}, {.centroids = k}).centroids, expected));
      }
    }
  }
}

TEST(FitPalette, ValuesOfNextToNoWeightFarOutCountByTheirDistance) {
  const std::vector<float> x{1, 2, 3, 1e15f, 2e15f, 3e15f}, w{1, 1, 1, 1e-25f, 1e-25f, 1e-25f};
  // {1, 2, 3} together cost 2, two of the far ones 5e4.
  const Palette palette = fit_palette(x, w, {.centroids = 4});
  EXPECT_TRUE(near(palette.cost, 2.0, {.rel = 1e-12}));
  EXPECT_LE(palette.lower_bound, palette.cost);
}

TEST(FitPalette, CentroidsThatBringNextToNothingGoWhereTheyBringMost) {
  // Beside 1e12 what the others gain is rounding; alone they are three and three values of a cluster each.
  const std::vector<float> x{-1e12f, 1, 1.5f, 2, 2.5f, 3, 3.5f, 1e12f};
  EXPECT_TRUE(near(fit_palette(x, {}, {.centroids = 4}).cost, 1.0, {.rel = 1e-12}));
}

TEST(FitPalette, OrderOfTheInputsDoesNotMatter) {
  for (const std::size_t n : {1000u, 70000u}) {
    Random random(8);
    Sample sample = draw(random, n, 0, true);
    const Palette palette = fit_palette(sample.x, sample.w, {});
    for (std::size_t i = n - 1; i > 0; --i) {
      const std::size_t j = random.below(i + 1);
      std::swap(sample.x[i], sample.x[j]);
      std::swap(sample.w[i], sample.w[j]);
    }
    const Palette shuffled = fit_palette(sample.x, sample.w, {});
    // Sums in another order differ in the last bits of a double; a centroid may round to the neighbouring float.
    EXPECT_TRUE(test::all_near(shuffled.centroids, palette.centroids, {.rel = 0x1p-23}));
    EXPECT_TRUE(near(shuffled.cost, palette.cost, {.rel = 1e-9}));
  }
}

TEST(FitPalette, AFitterGivesTheSameAfterOtherWork) {
  Random random(9);
  const Sample first = draw(random, 500, 0, true), second = draw(random, 80000, 2, false);
  PaletteFitter fitter;
  const Palette fresh = fitter.fit(first.x, first.w, {});
  (void)fitter.fit(second.x, second.w, {.centroids = 256, .gap = 1e-2});
  const Palette again = fitter.fit(first.x, first.w, {});
  EXPECT_TRUE(same_bits(again.centroids, fresh.centroids));
  EXPECT_EQ(again.lower_bound, fresh.lower_bound);
}

/// Values that come in pieces of random sizes, some of them empty, in other pieces each time.
class InPieces final : public WeightedValues {
 public:
  InPieces(const Sample& sample, std::uint64_t seed) : sample_(sample), random_(seed) {}
  std::size_t size() const override { return sample_.x.size(); }
  void walk(const Visit& visit) const override {
    const std::span<const float> x(sample_.x), w(sample_.w);
    for (std::size_t begin = 0; begin < x.size();) {
      const std::size_t count =
          std::min<std::size_t>(random_.below(random_.below(2) == 0 ? 5 : 40000), x.size() - begin);
      visit(x.subspan(begin, count), w.empty() ? w : w.subspan(begin, count));
      begin += count;
    }
    ++walks;
  }
  mutable int walks = 0;

 private:
  const Sample& sample_;
  mutable Random random_;
};

TEST(FitPalette, ValuesInPiecesGiveTheBitsOfThoseThatAreHeld) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(7000 + seed);
    Sample sample = draw(random, seed % 4 == 3 ? 3000 : 70000, seed % 5, seed % 2 == 1);
    if (seed == 5) {  // few values weigh anything: palettes are filled up with those that weigh nothing
      for (std::size_t i = 0; i < sample.x.size(); ++i) sample.w[i] = i % 3 == 0 ? 1.0f : 0.0f;
      for (std::size_t i = 0; i < sample.x.size(); i += 3) sample.x[i] = 0.5f;
    }
    if (seed == 7) std::fill(sample.w.begin(), sample.w.end(), 0.0f);
    const PaletteOptions options{.centroids = std::array<std::size_t, 3>{4, 16, 256}[seed % 3]};
    const Palette held = fit_palette(sample.x, sample.w, options);
    const InPieces pieces(sample, seed);
    const Palette walked = fit_palette(pieces, options);
    EXPECT_TRUE(same_bits(walked.centroids, held.centroids));
    EXPECT_EQ(walked.cost, held.cost);
    EXPECT_EQ(walked.lower_bound, held.lower_bound);
    EXPECT_EQ(palette_cost(pieces, held.centroids), palette_cost(sample.x, sample.w, held.centroids));
    EXPECT_LE(pieces.walks, 12);
  }
}

TEST(FitPalette, BadInputInALaterPieceIsNamedByItsPlaceInAll) {
  Sample sample{std::vector<float>(70000, 1.0f), std::vector<float>(70000, 1.0f)};
  sample.w[69999] = -1.0f;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)fit_palette(InPieces(sample, 1), {}); },
                                           "weight 69999 is -1; weights must be finite and not negative"));
  sample.x[69998] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)fit_palette(InPieces(sample, 1), {}); }, "value 69998 is inf"));
}

TEST(FitPalette, BadInputIsNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto fit = [](std::vector<float> x, std::vector<float> w, PaletteOptions options = {}) {
    return [=] { (void)fit_palette(x, w, options); };
  };
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1, 2, nan, nan}, {}), "value 2", "nan"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1, -inf}, {}), "value 1", "-inf"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1, 2}, {1, -0.5f}), "weight 1", "-0.5"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1, 2}, {nan, 1}), "weight 0", "nan"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1, 2}, {1, inf}), "weight 1", "inf"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1, 2}, {1}), "2 values but 1 weights"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({}, {}), "no values"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1}, {}, {.centroids = 0}), "1 to 256", "got 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1}, {}, {.centroids = 257}), "1 to 256"));
  EXPECT_TRUE(throws_with<InvalidArgument>(fit({1}, {}, {.gap = 1.0}), "gap"));
  EXPECT_NO_THROW(fit({1, 2}, {-0.0f, 1})());
}

TEST(AssignCodes, GivesTheNearestAndOfEquallyNearTheLower) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::size_t k = 1 + random.below(seed % 2 == 0 ? 20 : 256);
    std::vector<float> centroids(k), x(1 + random.below(300));
    for (float& c : centroids) c = static_cast<float>(random.below(40)) * 0.5f;  // with repetitions and exact middles
    if (seed % 3 == 0)
      for (float& c : centroids) c = static_cast<float>(random.normal());
    std::sort(centroids.begin(), centroids.end());
    for (float& v : x)
      v = seed % 3 == 0 ? static_cast<float>(random.normal()) : static_cast<float>(random.below(90)) * 0.25f;
    std::vector<std::uint8_t> codes(x.size());
    assign_codes(x, centroids, codes);
    double cost = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::size_t nearest = 0;
      const auto distance = [&](std::size_t c) {  // exact in double for these values
        return std::abs(static_cast<double>(x[i]) - static_cast<double>(centroids[c]));
      };
      for (std::size_t c = 1; c < k; ++c)
        if (distance(c) < distance(nearest)) nearest = c;
      ASSERT_EQ(codes[i], nearest) << "value " << x[i];
      cost += distance(nearest) * distance(nearest);
    }
    EXPECT_TRUE(near(palette_cost(x, {}, centroids), cost, {.rel = 1e-12}));  // a few hundred terms, another order
  }
}

TEST(AssignCodes, RefusesWhatIsNoPalette) {
  const std::vector<float> x{1.0f};
  std::vector<std::uint8_t> codes(1), two(2);
  const auto assign = [&](std::vector<float> centroids, std::span<std::uint8_t> out) {
    return [&x, centroids, out] { assign_codes(x, centroids, out); };
  };
  EXPECT_TRUE(throws_with<InvalidArgument>(assign({}, codes), "got 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>(assign({2.0f, 1.0f}, codes), "ascending", "centroid 1"));
  EXPECT_TRUE(throws_with<InvalidArgument>(assign({HUGE_VALF}, codes), "finite"));
  EXPECT_TRUE(throws_with<InvalidArgument>(assign({1.0f}, two), "2 codes"));
}

}  // namespace
}  // namespace nibble::quant
