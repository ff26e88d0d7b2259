#include "eval/sweep/paired_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::eval {
namespace {

using test::near;

TEST(PairedDifference, AgreesWithTheClosedFormOfFourDegreesOfFreedom) {
  const std::vector<double> a = {1, 3, 5, 7, 9}, b = {0, 1, 2, 3, 4};  // differences 1 … 5
  const auto difference = paired_difference(a, b);
  ASSERT_TRUE(difference);
  EXPECT_TRUE(near(difference->mean, 3.0, {.rel = 1e-15}));
  EXPECT_TRUE(near(difference->standard_error, std::sqrt(2.5 / 5.0), {.rel = 1e-15}));
  // F(t) = 1/2 + 3/8 · t/√(1 + t²/4) · (1 − t²/(1 + t²/4)/12) for four degrees of freedom.
  const double t = 3.0 / std::sqrt(0.5), s = 1.0 + t * t / 4.0;
  const double p = 2.0 * (0.5 - 0.375 * t / std::sqrt(s) * (1.0 - t * t / s / 12.0));
  EXPECT_TRUE(near(difference->p_value, p, {.rel = 1e-10}));
}

TEST(PairedDifference, FindsNothingInNoiseAndAlmostAnythingInPairs) {
  Random random(5);
  int false_claims = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<double> a(20), b(20);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = random.normal();
      b[i] = random.normal();
    }
    false_claims += paired_difference(a, b)->p_value < 0.05;
  }
  // Binomial(1000, 0.05): mean 50, deviation 6.9; five deviations either way.
  EXPECT_GT(false_claims, 15);
  EXPECT_LT(false_claims, 85);
  std::vector<double> a(50), b(50);  // a difference a hundredth of the spread between windows
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = random.normal();
    b[i] = a[i] + 0.01 + 0.002 * random.normal();
  }
  EXPECT_LT(paired_difference(a, b)->p_value, 1e-10);
}

TEST(PairedDifference, FewPairsAreUndecidedWithinMoreStandardErrors) {
  const double sure = std::erf(std::numbers::sqrt2);  // of a normal value within two deviations
  EXPECT_TRUE(near(kUndecidedChance, 1.0 - sure, {.rel = 1e-12}));
  // Closed forms of one and two degrees of freedom.
  EXPECT_TRUE(near(undecided_within(2), std::tan(std::numbers::pi / 2.0 * sure), {.rel = 1e-9}));
  EXPECT_TRUE(near(undecided_within(3), sure * std::sqrt(2.0 / (1.0 - sure * sure)), {.rel = 1e-9}));
  EXPECT_TRUE(near(undecided_within(5), 2.87, {.abs = 0.005}));
  EXPECT_TRUE(near(undecided_within(100000), kUndecidedWithin, {.rel = 1e-4}));
  EXPECT_THROW((void)undecided_within(1), InvalidArgument);
}

TEST(PairedDifference, WeighsPairs) {
  const std::vector<double> a = {1, 4, 2}, b = {0, 0, 0};
  const std::vector<std::uint64_t> weights = {3, 1, 2}, equal(3, 511);
  const auto difference = paired_difference(a, b, weights);
  EXPECT_TRUE(near(difference->mean, 11.0 / 6.0, {.rel = 1e-15}));
  EXPECT_TRUE(near(difference->standard_error, std::sqrt(398.0 / 36.0 / 22.0), {.rel = 1e-15}));
  // 36/14 effective pairs lie between two and three: so does the p-value of this t.
  const double t = difference->mean / difference->standard_error;
  const double of_one = 1.0 - 2.0 / std::numbers::pi * std::atan(t), of_two = 1.0 - t / std::sqrt(2.0 + t * t);
  EXPECT_LT(difference->p_value, of_one);
  EXPECT_GT(difference->p_value, of_two);
  EXPECT_EQ(paired_difference(a, b, equal)->standard_error, paired_difference(a, b)->standard_error);
  EXPECT_EQ(paired_difference(a, b, equal)->p_value, paired_difference(a, b)->p_value);
}

TEST(PairedDifference, KnowsWhatItCannotTest) {
  const std::vector<double> two = {1, 2}, three = {1, 2, 3}, one = {1};
  const std::vector<double> broken = {1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_FALSE(paired_difference(two, three));
  EXPECT_FALSE(paired_difference(one, one));
  EXPECT_FALSE(paired_difference(two, broken));
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::vector<std::uint64_t>& weights :
       {std::vector<std::uint64_t>{1}, {0, 0}, {5, 0}, {kMost, 1}, {1'000'000, 1}})
    EXPECT_FALSE(paired_difference(two, std::vector<double>{0, 5}, weights)) << weights[0];
  EXPECT_TRUE(paired_difference(two, std::vector<double>{0, 5}, std::vector<std::uint64_t>{kMost, kMost}));
  EXPECT_TRUE(near(paired_difference(two, two)->p_value, 1.0, {}));
  EXPECT_TRUE(near(paired_difference(two, std::vector<double>{0, 1})->p_value, 0.0, {}));
}

TEST(HolmAdjusted, StepsDownAndStaysInOrder) {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.5};
  // Sorted 0.01·4, 0.03·3, max(0.04·2, 0.09), max(0.5, 0.09).
  EXPECT_TRUE(test::all_near(holm_adjusted(p), std::vector<double>{0.04, 0.09, 0.09, 0.5}, {.rel = 1e-15}));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

}  // namespace
}  // namespace nibble::eval
