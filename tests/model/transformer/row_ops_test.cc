#include "model/transformer/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "core/machine/isa.h"
#include "core/random.h"
#include "tests/support/compare.h"

// The float kernels of the instruction set in force against the definitions in double, at every length up to a few
// vectors and on a grid through the range. ulp = 2^-23 relative to the exact value.

namespace nibble::test {
namespace {

constexpr double kUlp = 0x1p-23;
constexpr std::size_t kLengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100};
constexpr float kGuard = 12345.0f;  // stands behind every row and must stay

std::vector<float> random_row(std::size_t n, double scale, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> row(n);
  for (float& value : row) value = static_cast<float>(scale * random.normal());
  return row;
}

// Values through [low, high] in steps that hit no special pattern.
std::vector<float> grid(double low, double high, std::size_t n = 100'003) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(low + (high - low) * static_cast<double>(i) / static_cast<double>(n - 1));
  return values;
}

void expect_guarded(const std::vector<float>& row, std::size_t n) { EXPECT_TRUE(near(row[n], kGuard, {})) << n; }

TEST(RowOps, ExpIsWithinTwoUlp) {
  const auto x = grid(-87.3, 88.7);
  std::vector<float> y(x.size());
  std::vector<double> actual, expected;
  const double sum = model::exp_row(x.data(), y.data(), x.size(), 0.0f);
  double expected_sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    actual.push_back(static_cast<double>(y[i]));
    expected.push_back(std::exp(static_cast<double>(x[i])));
    expected_sum += expected.back();
  }
  EXPECT_TRUE(all_near(actual, expected, {.rel = 2 * kUlp}));
  EXPECT_TRUE(near(sum, expected_sum, {.rel = 2 * kUlp}));
}

TEST(RowOps, ExpOfVeryNegativeValuesIsNothing) {
  const std::vector<float> x{-88.5f, -200.0f, -1e30f, -std::numeric_limits<float>::infinity()};
  std::vector<float> y(x.size());
  model::exp_row(x.data(), y.data(), x.size(), 0.0f);
  EXPECT_TRUE(all_near(y, std::vector<float>(4, 0.0f), {.abs = 0x1p-126}));
  const bool normal = active_isa() != Isa::kScalar;  // numbers below the normal ones slow what multiplies them
  EXPECT_TRUE(!normal || same_bits(std::span(y).subspan(1), std::vector<float>(3, 0.0f)));
}

TEST(RowOps, ExpAndItsSumEndWithTheRow) {
  for (const std::size_t n : kLengths) {
    auto x = random_row(n + 1, 3.0, n);
    x[n] = kGuard;
    auto y = x;
    double expected = 0.0;
    std::vector<float> each;
    for (std::size_t i = 0; i < n; ++i) {
      each.push_back(static_cast<float>(std::exp(static_cast<double>(x[i]) - 0.5)));
      expected += std::exp(static_cast<double>(x[i]) - 0.5);
    }
    // x - shift rounds once more: |x - shift| < 16 here, half an ulp of it is 2^-20 relative in the exponential.
    EXPECT_TRUE(near(model::sum_exp(x.data(), n, 0.5f), expected, {.rel = 16 * kUlp})) << n;
    EXPECT_TRUE(near(model::exp_row(y.data(), y.data(), n, 0.5f), expected, {.rel = 16 * kUlp})) << n;
    EXPECT_TRUE(all_near(std::span<const float>(y.data(), n), each, {.rel = 16 * kUlp})) << n;
    expect_guarded(y, n);
  }
}

TEST(RowOps, MaximumIsExact) {
  for (const std::size_t n : kLengths)
    for (std::size_t at = 0; at < n; ++at) {
      auto x = random_row(n + 1, 1.0, n);
      x[at] = 100.0f;
      x[n] = kGuard;
      EXPECT_TRUE(near(model::max_real(x.data(), n), 100.0, {})) << n << " " << at;
    }
  EXPECT_EQ(model::max_real<float>(nullptr, 0), -std::numeric_limits<float>::infinity());
}

TEST(RowOps, SoftmaxSumsToOneAndReportsItsLogarithm) {
  auto x = random_row(1000, 20.0, 1);
  double sum = 0.0;
  for (const float value : x) sum += std::exp(static_cast<double>(value));
  EXPECT_TRUE(near(model::log_sum_exp(x.data(), x.size()), std::log(sum), {.rel = 1e-6}));
  EXPECT_TRUE(near(model::softmax_row(x.data(), x.size()), std::log(sum), {.rel = 1e-6}));
  double total = 0.0;
  for (const float value : x) total += static_cast<double>(value);
  EXPECT_TRUE(near(total, 1.0, {.abs = 1e-6}));
}

TEST(RowOps, NanStaysNan) {
  auto x = random_row(40, 1.0, 1);
  x[20] = std::numeric_limits<float>::quiet_NaN();
  auto y = x;
  EXPECT_TRUE(std::isnan(model::exp_row(x.data(), y.data(), x.size(), 0.0f)));
  EXPECT_TRUE(std::isnan(y[20]));
  EXPECT_FALSE(std::isnan(y[19]));
  EXPECT_TRUE(std::isnan(model::log_sum_exp(x.data(), x.size())));
}

}  // namespace
}  // namespace nibble::test
