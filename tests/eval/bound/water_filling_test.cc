#include "eval/bound/water_filling.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using eval::WaterFilling;

// A hundred halvings leave the level exact to double; sums of at most a few hundred terms round by less than this.
constexpr Bound kRounding{.abs = 0.0, .rel = 1e-11};

TEST(WaterFilling, HalvesTheErrorOfWhiteValuesTwiceForEachBit) {
  const WaterFilling white({1.0, 1.0, 1.0}, {2.0});
  EXPECT_TRUE(near(white.variance(), 2.0, kRounding));
  for (const double bits : {0.0, 0.5, 1.0, 3.25, 16.0}) {
    const double expected = 2.0 * std::exp2(-2.0 * bits);
    EXPECT_TRUE(near(white.distortion(bits), expected, kRounding)) << bits;
    EXPECT_TRUE(near(white.bits(expected), bits, {.abs = 1e-11})) << bits;
  }
}

TEST(WaterFilling, GivesBitsToTheLargestFirst) {
  // Variances 1 and 4. Half a bit in all goes to the second: 4 · 2^-1 = 2, still above the first.
  EXPECT_TRUE(near(WaterFilling({1.0}, {1.0, 4.0}).distortion(0.25), 1.5, kRounding));
  // Two bits in all: the second is down to 1 after one, the rest is shared: 2^-1 each.
  EXPECT_TRUE(near(WaterFilling({1.0}, {1.0, 4.0}).distortion(1.0), 0.5, kRounding));
}

TEST(WaterFilling, CountsComponentsThatAreKnown) {
  const WaterFilling one_of_two({1.0}, {0.0, 1.0});  // which has twice the bits, and half of the mean
  EXPECT_TRUE(near(one_of_two.distortion(1.0), std::exp2(-4.0) / 2.0, kRounding));
  EXPECT_TRUE(near(one_of_two.bits(std::exp2(-4.0) / 2.0), 1.0, kRounding));
}

TEST(WaterFilling, IsWhatItsDefinitionSays) {
  Random random(71);
  std::vector<double> a(7), b(11);
  for (double& value : a) value = std::exp(2.0 * random.normal());
  for (double& value : b) value = std::exp(2.0 * random.normal());
  const WaterFilling filling(a, b);
  for (const double level : {1e-6, 0.01, 0.3, 2.0, 40.0}) {
    double distortion = 0.0, bits = 0.0;
    for (const double x : a)
      for (const double y : b) {
        distortion += std::fmin(x * y, level) / 77.0;
        bits += std::fmax(0.0, 0.5 * std::log2(x * y / level)) / 77.0;
      }
    EXPECT_TRUE(near(filling.distortion(bits), distortion, kRounding)) << level;
    EXPECT_TRUE(near(filling.bits(distortion), bits, {.abs = 1e-11, .rel = 1e-9})) << level;
  }
}

TEST(WaterFilling, NeedsNoBitsForErrorsAsLargeAsTheValues) {
  const WaterFilling filling({1.0, 3.0}, {2.0});
  EXPECT_EQ(filling.bits(4.0), 0.0);
  EXPECT_EQ(filling.bits(100.0), 0.0);
  EXPECT_TRUE(near(filling.distortion(0.0), filling.variance(), kRounding));
}

TEST(WaterFilling, RefusesWhatIsNoVariance) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(throws_with<InvalidArgument>([] { WaterFilling({1.0, -1.0}, {1.0}); }, "not negative", "-1"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { WaterFilling({1.0}, {nan}); }, "finite"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { WaterFilling({0.0}, {1.0}); }, "above 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { WaterFilling({1.0}, {}); }, "above 0"));
}

TEST(EntropyPower, IsThatOfTheDensityOfStudentsT) {
  for (const double degrees : {3.0, 5.0, 30.0}) {
    // -∫ p log p over x = sinh u, by the midpoint rule; the tail beyond, p ~ x^-4 at most, is below 1e-9.
    const double scale = std::exp(std::lgamma(0.5 * (degrees + 1.0)) - std::lgamma(0.5 * degrees)) /
                         std::sqrt(degrees * std::numbers::pi);
    constexpr int kSteps = 400000;
    constexpr double kEnd = 12.0;
    double entropy = 0.0;
    for (int i = 0; i < kSteps; ++i) {
      const double u = kEnd * (2.0 * (i + 0.5) / kSteps - 1.0), x = std::sinh(u);
      const double p = scale * std::pow(1.0 + x * x / degrees, -0.5 * (degrees + 1.0));
      entropy -= p * std::log(p) * std::cosh(u) * 2.0 * kEnd / kSteps;
    }
    const double expected =
        std::exp(2.0 * entropy) / (2.0 * std::numbers::pi * std::numbers::e) * (degrees - 2.0) / degrees;
    EXPECT_TRUE(near(eval::entropy_power_of_student_t(degrees), expected, {.rel = 1e-7})) << degrees;
    EXPECT_LT(expected, 1.0);
  }
}

TEST(EntropyPower, OfHardlyAnyTailIsThatOfTheNormalDistribution) {
  EXPECT_TRUE(near(eval::entropy_power_of_student_t(1e5), 1.0, {.abs = 1e-6}));  // falls like 1/degrees²
}

}  // namespace
}  // namespace nibble::test
