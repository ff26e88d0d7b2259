#include "eval/quality/log_sum_exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::eval {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double reference(const std::vector<float>& values) {
  long double max = -std::numeric_limits<long double>::infinity(), sum = 0.0L;
  for (const float value : values) max = std::max(max, static_cast<long double>(value));
  for (const float value : values) sum += std::exp(static_cast<long double>(value) - max);
  return static_cast<double>(max + std::log(sum));
}

TEST(LogSumExp, AgreesWithLongDoubleAtEverySmallSize) {
  Random random(1);
  for (std::size_t size = 1; size < 70; ++size) {
    for (const double spread : {0.1, 3.0, 30.0, 900.0}) {
      std::vector<float> values(size);
      for (float& value : values) value = static_cast<float>(spread * random.normal());
      // The series and the sums are good to a few units of 1e-16 each; the result is rounded at its own magnitude.
      EXPECT_TRUE(test::near(log_sum_exp(values), reference(values), {.abs = 1e-13, .rel = 1e-15}))
          << size << " values, spread " << spread;
    }
  }
}

TEST(LogSumExp, AgreesWithLongDoubleOnAWholeVocabulary) {
  Random random(2);
  std::vector<float> values(128'256);
  for (float& value : values) value = static_cast<float>(4.0 * random.normal());
  EXPECT_TRUE(test::near(log_sum_exp(values), reference(values), {.abs = 1e-13}));
}

TEST(LogSumExp, EqualValuesAreExact) {
  for (const std::size_t size : {1u, 8u, 64u, 4096u}) {
    const std::vector<float> values(size, -2.5f);
    EXPECT_EQ(log_sum_exp(values), -2.5 + std::log(static_cast<double>(size)));
  }
}

TEST(LogSumExp, MinusInfinityCountsNothing) {
  for (std::size_t hole = 0; hole < 40; ++hole) {
    std::vector<float> values(41, 0.0f);
    values[hole] = -kInf;
    EXPECT_EQ(log_sum_exp(values), std::log(40.0)) << hole;
  }
}

TEST(LogSumExp, LargeMagnitudesNeitherOverflowNorVanish) {
  EXPECT_EQ(log_sum_exp(std::vector<float>{3e38f, 3e38f}), static_cast<double>(3e38f));
  EXPECT_EQ(log_sum_exp(std::vector<float>{-3e38f, 3e38f}), static_cast<double>(3e38f));
  EXPECT_EQ(log_sum_exp(std::vector<float>{-3e38f, -3e38f}), static_cast<double>(-3e38f));
}

TEST(LogSumExp, OneNanAnywhereShows) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> values(size, 1.0f);
      values[at] = kNaN;
      EXPECT_TRUE(std::isnan(log_sum_exp(values))) << at << " of " << size;
      values[at] = kInf;
      EXPECT_TRUE(std::isnan(log_sum_exp(values))) << at << " of " << size;
    }
  }
}

TEST(LogSumExp, NothingIsMinusInfinity) {
  EXPECT_EQ(log_sum_exp({}), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(log_sum_exp(std::vector<float>{-kInf, -kInf})));
}

}  // namespace
}  // namespace nibble::eval
