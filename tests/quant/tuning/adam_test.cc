#include "quant/tuning/adam.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

TEST(Adam, FollowsItsFormulaStepByStep) {
  const std::array<float, 2> units{0.5f, 20.0f};
  std::array<float, 2> values{1.0f, -3.0f};
  std::array<double, 2> expected{1.0, -3.0}, m{}, v{};
  Adam adam(2);
  for (int t = 1; t <= 20; ++t) {
    const std::array<double, 2> gradient{std::sin(t), 1e-3 * t};
    adam.step(0.01, gradient, units, values);
    for (std::size_t i = 0; i < 2; ++i) {
      const double unit = static_cast<double>(units[i]), g = unit * gradient[i];
      m[i] = 0.9 * m[i] + 0.1 * g, v[i] = 0.99 * v[i] + 0.01 * g * g;
      expected[i] -= unit * 0.01 * (m[i] / (1 - std::pow(0.9, t))) / std::sqrt(v[i] / (1 - std::pow(0.99, t)));
    }
  }
  // Moments and values are kept in float: 20 steps of a few roundings of 2^-24 each.
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(test::near(static_cast<double>(values[i]), expected[i], {.abs = 1e-6, .rel = 1e-5}));
}

TEST(Adam, LeavesValuesWithoutGradientAndFirstStepsAreTheRateInUnits) {
  std::array<float, 3> values{1.0f, 2.0f, 3.0f};
  Adam adam(3);
  adam.step(0.25, std::array<double, 3>{0.0, 1e-9, -7.0}, std::array<float, 3>{1.0f, 2.0f, 4.0f}, values);
  // ε is 1e-12 against gradients of 2e-9 and more.
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_TRUE(test::near(static_cast<double>(values[1]), 1.5, {.rel = 1e-3}));
  EXPECT_TRUE(test::near(static_cast<double>(values[2]), 4.0, {.rel = 1e-6}));
}

TEST(Adam, RefusesAnotherNumberOfValues) {
  std::array<float, 2> values{};
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { Adam(3).step(0.1, std::array<double, 2>{}, std::array<float, 2>{}, values); }, "expected 3"));
}

}  // namespace
}  // namespace nibble::quant
