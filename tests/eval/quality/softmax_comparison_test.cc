#include "eval/quality/softmax_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "eval/quality/log_sum_exp.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::near;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<double> softmax(const std::vector<float>& logits) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> result;
  for (const float logit : logits) result.push_back(std::exp(static_cast<double>(logit) - max));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& p : result) p /= sum;
  return result;
}

// By the definition, from probabilities.
double divergence(const std::vector<float>& reference, const std::vector<float>& logits) {
  const auto p = softmax(reference), q = softmax(logits);
  double sum = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0.0) sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

std::vector<float> random_logits(std::size_t size, double spread, Random& random) {
  std::vector<float> logits(size);
  for (float& logit : logits) logit = static_cast<float>(spread * random.normal());
  return logits;
}

TEST(CompareSoftmax, HandComputedCases) {
  const auto log = [](double p) { return static_cast<float>(std::log(p)); };
  // Logits are logarithms rounded to float, off by 6e-8 of a nat or less.
  constexpr test::Bound kRounding{.abs = 3e-7};
  const std::vector<float> half{log(0.5), log(0.5)}, quarter{log(0.25), log(0.75)};
  EXPECT_TRUE(near(compare_softmax(half, quarter).divergence, 0.5 * std::log(4.0 / 3.0), kRounding));
  EXPECT_TRUE(near(compare_softmax(quarter, half).divergence, 0.25 * std::log(0.5) + 0.75 * std::log(1.5), kRounding));
  // A sure prediction against a uniform one over eight: ln 8.
  std::vector<float> sure(8, -kInf);
  sure[3] = 2.0f;
  EXPECT_TRUE(near(compare_softmax(sure, std::vector<float>(8, 1.0f)).divergence, std::log(8.0), {.rel = 1e-15}));
  EXPECT_EQ(compare_softmax(std::vector<float>(8, 1.0f), sure).divergence, static_cast<double>(kInf));
}

TEST(CompareSoftmax, AgreesWithTheDefinitionAtEverySmallSize) {
  for (std::size_t size = 1; size < 70; ++size) {
    for (const double spread : {0.01, 1.0, 10.0}) {
      Random random(size);
      const auto reference = random_logits(size, spread, random), logits = random_logits(size, spread, random);
      const SoftmaxComparison result = compare_softmax(reference, logits);
      // Logits up to 40: sums of doubles of that size.
      EXPECT_TRUE(near(result.divergence, divergence(reference, logits), {.abs = 1e-13, .rel = 1e-13})) << size;
      EXPECT_TRUE(near(result.reference_log_sum, log_sum_exp(reference), {.rel = 1e-15})) << size;
      EXPECT_EQ(result.log_sum, log_sum_exp(logits)) << "the same bits, size " << size;
      const auto top = [](const std::vector<float>& row) {
        return std::max_element(row.begin(), row.end()) - row.begin();
      };
      EXPECT_EQ(result.same_top, top(reference) == top(logits)) << size;
    }
  }
}

TEST(CompareSoftmax, AgreesWithTheDefinitionOnAWholeVocabulary) {
  Random random(7);
  const auto reference = random_logits(128'256, 3.0, random);
  auto logits = reference;
  for (float& logit : logits) logit += static_cast<float>(0.05 * random.normal());
  // 128,256 terms, each rounded to 1e-16 of logits up to 15.
  EXPECT_TRUE(near(compare_softmax(reference, logits).divergence, divergence(reference, logits), {.abs = 1e-12}));
}

TEST(CompareSoftmax, IsExactlyZeroForEqualRowsAndNeverNegative) {
  for (std::size_t size = 1; size < 100; size += 7) {
    Random random(size);
    const auto logits = random_logits(size, 5.0, random);
    EXPECT_EQ(compare_softmax(logits, logits).divergence, 0.0);
    EXPECT_TRUE(compare_softmax(logits, logits).same_top);
    auto shifted = logits;  // the same distribution, but for the rounding of the sum
    for (float& logit : shifted) logit += 3.0f;
    const double shift = compare_softmax(logits, shifted).divergence;
    EXPECT_GE(shift, 0.0);
    EXPECT_TRUE(near(shift, 0.0, {.abs = 1e-12}));  // (1e-6)² / 2: logits near 16 are rounded to 1e-6
  }
}

TEST(CompareSoftmax, TheFirstOfEqualMaximaIsTheTop) {
  EXPECT_TRUE(compare_softmax(std::vector<float>{0, 2, 2}, std::vector<float>{1, 5, 5}).same_top);
  EXPECT_TRUE(compare_softmax(std::vector<float>{0, 2, 2}, std::vector<float>{1, 5, 0}).same_top);
  EXPECT_FALSE(compare_softmax(std::vector<float>{0, 2, 2}, std::vector<float>{1, 0, 5}).same_top);
}

TEST(CompareSoftmax, ImpossibleTokensOfBothCountNothing) {
  for (std::size_t hole = 0; hole < 40; ++hole) {
    std::vector<float> reference(41, 0.5f), logits(41, 0.25f);
    reference[hole] = logits[hole] = -kInf;
    EXPECT_TRUE(near(compare_softmax(reference, logits).divergence, 0.0, {.abs = 1e-15})) << hole;  // of ln 40 ± 0.5
    logits[hole] = 0.25f;  // possible for the model only: 41 equal chances against 40
    EXPECT_TRUE(near(compare_softmax(reference, logits).divergence, std::log(41.0 / 40.0), {.rel = 1e-12})) << hole;
  }
}

TEST(CompareSoftmax, OneNanAnywhereShows) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      const std::vector<float> good(size, 1.0f);
      std::vector<float> bad = good;
      bad[at] = kNaN;
      EXPECT_TRUE(std::isnan(compare_softmax(good, bad).divergence)) << at << " of " << size;
      EXPECT_TRUE(std::isnan(compare_softmax(bad, good).divergence)) << at << " of " << size;
    }
  }
}

TEST(CompareSoftmax, LengthsMustAgree) {
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { compare_softmax(std::vector<float>(3), std::vector<float>(4)); },
                                                 "3 and 4"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { compare_softmax({}, {}); }, "0 and 0"));
}

}  // namespace
}  // namespace nibble::eval
