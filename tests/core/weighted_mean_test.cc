#include "core/weighted_mean.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

using test::near;
using Weights = std::vector<std::uint64_t>;

TEST(WeightedMean, OfHandComputedValues) {
  const std::vector<double> means = {1.0, 4.0, 2.0};
  const Weights tokens = {3, 1, 2};
  // R = 11/6; Σ n² (m − R)² = (25 · 9 + 169 + 4) / 36 over 36 − 14.
  const WeightedMean found = weighted_mean(means, tokens);
  EXPECT_TRUE(near(found.mean, 11.0 / 6.0, {.rel = 1e-15}));
  EXPECT_TRUE(near(found.standard_error, std::sqrt(398.0 / 36.0 / 22.0), {.rel = 1e-15}));
  EXPECT_TRUE(near(found.effective_count, 36.0 / 14.0, {.rel = 1e-15}));
}

TEST(WeightedMean, OfEqualWeightsIsThatOfNoneToTheBit) {
  Random random(3);
  for (std::size_t count = 2; count < 90; ++count) {
    std::vector<double> values(count);
    for (double& value : values) value = random.normal();
    const double sum = std::accumulate(values.begin(), values.end(), 0.0), n = static_cast<double>(count);
    double squares = 0.0;
    for (const double value : values) squares += (value - sum / n) * (value - sum / n);
    for (const Weights& weights : {Weights(), Weights(count, 1), Weights(count, 511)}) {
      const WeightedMean found = weighted_mean(values, weights);
      EXPECT_EQ(found.mean, sum / n);
      EXPECT_EQ(found.standard_error, std::sqrt(squares / (n - 1.0)) / std::sqrt(n));
      EXPECT_EQ(found.effective_count, n);
    }
  }
}

TEST(WeightedMean, ItsErrorIsThatOfIndependentTokensWhateverTheWindows) {
  constexpr std::uint64_t kSeed = 7;
  constexpr std::size_t kTrials = 4000;
  for (const Weights& tokens : {Weights{63, 2}, Weights{63, 32, 32, 32, 5}, Weights{511, 1, 1, 1, 1, 1, 1, 1}}) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", " << tokens.size() << " windows");
    Random random(kSeed);
    const auto all = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0}));
    std::vector<double> variances;
    for (std::size_t trial = 0; trial < kTrials; ++trial) {
      std::vector<double> means;  // of tokens of variance 1
      for (const std::uint64_t n : tokens) means.push_back(random.normal() / std::sqrt(static_cast<double>(n)));
      const double error = weighted_mean(means, tokens).standard_error;
      variances.push_back(error * error * all);
    }
    // The mean over all tokens has the variance 1 / all. Five standard errors of the trials' mean.
    const WeightedMean found = weighted_mean(variances, {});
    EXPECT_TRUE(near(found.mean, 1.0, {.abs = 5.0 * found.standard_error}));
  }
}

TEST(WeightedMean, OneWindowHasNoError) {
  EXPECT_TRUE(std::isnan(weighted_mean(std::vector<double>{2.0}, {}).standard_error));
  EXPECT_EQ(weighted_mean(std::vector<double>{2.0}, Weights{5}).mean, 2.0);
  EXPECT_TRUE(std::isnan(weighted_mean(std::vector<double>{2.0, 3.0}, Weights{5, 0}).standard_error));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [] {
        weighted_mean(std::vector<double>{2.0, 3.0}, Weights{5});
      },
      "a weight for each of 2 values, got 1"));
}

}  // namespace
}  // namespace nibble
