#include "eval/quality/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/compare.h"

namespace nibble::eval {
namespace {

TEST(Statistics, MeanAndDeviationOfHandComputedValues) {
  const std::vector<double> values{1.0, 2.0, 3.0, 6.0};
  EXPECT_EQ(mean(values), 3.0);
  EXPECT_TRUE(test::near(sample_deviation(values), std::sqrt(14.0 / 3.0), {.rel = 1e-15}));
  EXPECT_TRUE(std::isnan(sample_deviation(std::vector<double>{1.0})));
  EXPECT_TRUE(std::isnan(mean({})));
}

TEST(Statistics, QuantilesLieBetweenOrderStatistics) {
  const double shares[] = {0.0, 0.25, 0.5, 0.9, 1.0};
  const double of_five[] = {1.0, 2.0, 3.0, 4.6, 5.0};
  EXPECT_TRUE(test::all_near(quantiles({5.0, 1.0, 4.0, 2.0, 3.0}, shares), of_five, {.rel = 1e-15}));
  const double of_one[] = {7.0, 7.0, 7.0, 7.0, 7.0};
  EXPECT_TRUE(test::all_near(quantiles({7.0}, shares), of_one, {}));
}

TEST(Statistics, QuantilesKeepInfinitiesAndShowNans) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double shares[] = {0.0, 1.0};
  const double ends[] = {1.0, kInf};
  EXPECT_TRUE(test::all_near(quantiles({kInf, 1.0, kInf}, shares), ends, {}));
  EXPECT_TRUE(std::isnan(quantiles({1.0, std::nan("")}, shares)[0]));
  EXPECT_TRUE(std::isnan(quantiles({}, shares)[1]));
}

}  // namespace
}  // namespace nibble::eval
