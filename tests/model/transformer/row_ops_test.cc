#include "model/transformer/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

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
  model::gelu_row(x.data(), y.data(), x.size());
  EXPECT_TRUE(std::isnan(y[20]));
}

double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST(RowOps, GeluIsTheTanhFormula) {
  const auto x = grid(-12.0, 12.0);
  std::vector<float> y(x.size());
  model::gelu_row(x.data(), y.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), u = std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v);
    // 1 + tanh u cancels in double for negative u; this form does not.
    const double exact = v / (1.0 + std::exp(-2.0 * u));
    ASSERT_TRUE(near(static_cast<double>(y[i]), exact, {.abs = 1e-36, .rel = (6 + 4 * std::abs(u)) * kUlp})) << v;
    if (v > -3.0) {
      ASSERT_TRUE(near(exact, gelu(v), {.abs = 1e-13})) << v;
    }
  }
}

TEST(RowOps, SiluIsWithinSixUlp) {
  const auto gate = grid(-80.0, 80.0);
  const auto up = random_row(gate.size(), 1.0, 1);
  std::vector<float> y(gate.size());
  model::silu_mul_row(gate.data(), up.data(), y.data(), gate.size());
  std::vector<double> actual(y.begin(), y.end()), expected;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = static_cast<double>(gate[i]);
    expected.push_back(g / (1.0 + std::exp(-g)) * static_cast<double>(up[i]));
  }
  EXPECT_TRUE(all_near(actual, expected, {.abs = 1e-37, .rel = 6 * kUlp}));
}

// Derivatives by central differences of the definition in double: h = 1e-5 leaves an error of h^2 times the third
// derivative (at most a few units) and of 1e-16 / h; the float kernels add a few ulp of the terms, which are below 2.
TEST(RowOps, BackwardIsTheDerivative) {
  const double h = 1e-5;
  for (const std::size_t n : kLengths) {
    const auto x = random_row(n, 2.0, n + 1), up = random_row(n, 1.0, n + 2), dy = random_row(n, 1.0, n + 3);
    std::vector<float> dx(n + 1, kGuard), dgate(n + 1, kGuard), dup(n + 1, kGuard);
    model::gelu_backward_row(x.data(), dy.data(), dx.data(), n);
    model::silu_mul_backward_row(x.data(), up.data(), dy.data(), dgate.data(), dup.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]), u = static_cast<double>(up[i]), d = static_cast<double>(dy[i]);
      const auto silu = [](double g) { return g / (1.0 + std::exp(-g)); };
      const auto slope = [&](auto f) { return (f(v + h) - f(v - h)) / (2.0 * h); };
      EXPECT_TRUE(near(static_cast<double>(dx[i]), d * slope(gelu), {.abs = 2e-6, .rel = 2e-6})) << v;
      EXPECT_TRUE(near(static_cast<double>(dgate[i]), d * u * slope(silu), {.abs = 2e-6, .rel = 2e-6})) << v;
      EXPECT_TRUE(near(static_cast<double>(dup[i]), d * silu(v), {.abs = 1e-6, .rel = 1e-6})) << v;
    }
    expect_guarded(dx, n);
    expect_guarded(dgate, n);
    expect_guarded(dup, n);
  }
}

TEST(RowOps, OutputsMayBeTheInputs) {
  const auto x = random_row(50, 1.0, 1), up = random_row(50, 1.0, 2), dy = random_row(50, 1.0, 3);
  std::vector<float> apart(50), apart2(50);
  auto a = x, b = up;
  model::silu_mul_backward_row(x.data(), up.data(), dy.data(), apart.data(), apart2.data(), 50);
  model::silu_mul_backward_row(a.data(), b.data(), dy.data(), a.data(), b.data(), 50);
  EXPECT_TRUE(same_bits(a, apart));
  EXPECT_TRUE(same_bits(b, apart2));
}

}  // namespace
}  // namespace nibble::test
