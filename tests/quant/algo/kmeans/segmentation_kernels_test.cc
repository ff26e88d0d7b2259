// The inner loop of optimal k-means on each tier, against the scalar one: bit for bit, since which of two clusterings
// is better may hang on the last bit, and files are to be the same on every processor.
#include "quant/algo/kmeans/segmentation_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/random.h"
#include "quant/algo/kmeans/grains.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"

namespace nibble::quant {
namespace {

namespace kernels = segmentation_kernels;
using kernels::kRows;

struct Sums {
  PrefixSums weight, moment;
  std::vector<double> best;

  // Values and weights of any size; one in eight of weight 0, whose place among the nodes is that of its neighbour.
  Sums(std::size_t nodes, double spread, Random& random) : best(nodes) {
    weight.resize(nodes);
    moment.resize(nodes);
    TwiceSum weights, moments;
    for (std::size_t i = 0; i < nodes; ++i) {
      const double w = random.below(8) == 0 ? 0.0 : std::exp(spread * random.normal());
      weights.add(w);
      moments.add(w * std::exp(spread * random.normal()));
      weight.set(i, weights);
      moment.set(i, moments);
      best[i] = std::exp(spread * random.normal());
    }
  }
};

TEST(BestCuts, AreTheScalarOnesToTheLastBit) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::size_t row = 1 + random.below(40), last = random.below(row), first = random.below(last + 1);
    const double spread = seed % 2 == 0 ? 1.0 : 20.0, price = random.uniform();
    const Sums sums(row + kRows, spread, random);
    const double least_weight = std::ldexp(sums.weight.high.back(), -70);

    test::Guarded<double> weight_high(sums.weight.high), weight_low(sums.weight.low);
    test::Guarded<double> moment_high(sums.moment.high), moment_low(sums.moment.low);
    const kernels::Prefixes prefixes{weight_high.data(), weight_low.data(), moment_high.data(), moment_low.data()};
    test::Guarded<double> best{std::span<const double>(sums.best)}, expected{std::span<const double>(sums.best)};
    test::Guarded<std::int32_t> cut(row + kRows), expected_cut(row + kRows);
    kernels::active()(prefixes, least_weight, price, first, last, row, best.data(), cut.data());
    kernels::best_cuts_scalar(prefixes, least_weight, price, first, last, row, expected.data(), expected_cut.data());
    EXPECT_TRUE(test::same_bits(best.values(), expected.values()));
    for (std::size_t r = 0; r < row + kRows; ++r) EXPECT_EQ(cut.data()[r], expected_cut.data()[r]) << "row " << r;
  }
}

}  // namespace
}  // namespace nibble::quant
