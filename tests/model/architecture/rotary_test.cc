#include "model/architecture/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/compare.h"

// Frequencies against the papers' formulas in plain loops; both sides are double: agreement to a few roundings.

namespace nibble::test {
namespace {

using model::rotary_frequencies;
using model::RotaryScaling;
using model::RotarySpec;
using Kind = RotaryScaling::Kind;

constexpr Bound kRoundings{.abs = 0.0, .rel = 1e-13};

RotarySpec spec(Kind kind, std::size_t dims = 64, double base = 10000.0) {
  RotarySpec spec;
  spec.dims = dims, spec.base = base, spec.scaling.kind = kind;
  spec.scaling.factor = 4.0, spec.scaling.original_context = 1024;
  return spec;
}

std::vector<double> plain(std::size_t dims, double base) {
  std::vector<double> frequencies;
  for (std::size_t i = 0; i < dims / 2; ++i)
    frequencies.push_back(1.0 / std::pow(base, static_cast<double>(2 * i) / static_cast<double>(dims)));
  return frequencies;
}

TEST(RotaryFrequencies, FallGeometrically) {
  EXPECT_TRUE(all_near(rotary_frequencies(spec(Kind::kNone), 1), plain(64, 10000.0), kRoundings));
}

TEST(RotaryFrequencies, AreDividedByTheLinearFactor) {
  std::vector<double> expected = plain(64, 10000.0);
  for (double& f : expected) f /= 4.0;
  EXPECT_TRUE(all_near(rotary_frequencies(spec(Kind::kLinear), 5000), expected, kRoundings));
}

TEST(RotaryFrequencies, OfADynamicBaseGrowBeyondTheContextOnly) {
  EXPECT_TRUE(all_near(rotary_frequencies(spec(Kind::kDynamic), 1024), plain(64, 10000.0), kRoundings));
  const double grown = 10000.0 * std::pow(4.0 * 3000.0 / 1024.0 - 3.0, 64.0 / 62.0);
  EXPECT_TRUE(all_near(rotary_frequencies(spec(Kind::kDynamic), 3000), plain(64, grown), kRoundings));
  EXPECT_TRUE(model::same_frequencies(spec(Kind::kDynamic), 7, 1024));
  EXPECT_FALSE(model::same_frequencies(spec(Kind::kDynamic), 1024, 1025));
}

TEST(RotaryFrequencies, OfLlama3BlendByWavelength) {
  RotarySpec rotary = spec(Kind::kLlama3);
  rotary.scaling.low_frequency_factor = 1.0, rotary.scaling.high_frequency_factor = 4.0;
  std::vector<double> expected;
  for (const double f : plain(64, 10000.0)) {
    const double turns = 1024.0 * f / (2.0 * std::numbers::pi);  // over the original context
    const double keep = turns > 4.0 ? 1.0 : turns < 1.0 ? 0.0 : (turns - 1.0) / 3.0;
    expected.push_back(f * (keep + (1.0 - keep) / 4.0));
  }
  EXPECT_TRUE(all_near(rotary_frequencies(rotary, 9), expected, {.abs = 0.0, .rel = 1e-11}));
}

TEST(RotaryFrequencies, OfYarnRampByPair) {
  for (const bool truncate : {true, false}) {
    RotarySpec rotary = spec(Kind::kYarn);
    rotary.scaling.truncate = truncate;
    // Pairs that turn 32 times and once over the original context.
    double low = 64.0 * std::log(1024.0 / (32.0 * 2.0 * std::numbers::pi)) / (2.0 * std::log(10000.0));
    double high = 64.0 * std::log(1024.0 / (2.0 * std::numbers::pi)) / (2.0 * std::log(10000.0));
    if (truncate) low = std::floor(low), high = std::ceil(high);
    const std::vector<double> base = plain(64, 10000.0);
    std::vector<double> expected;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const double stretched = std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
      expected.push_back(base[i] * (1.0 - stretched) + base[i] / 4.0 * stretched);
    }
    EXPECT_TRUE(all_near(rotary_frequencies(rotary, 9), expected, kRoundings)) << truncate;
  }
}

TEST(RotaryFrequencies, OfLongRopeHaveOneSetForShortAndOneForLongTexts) {
  RotarySpec rotary = spec(Kind::kLongRope, 8);
  rotary.scaling.short_factors = {1.0, 1.5, 2.0, 3.0};
  rotary.scaling.long_factors = {2.0, 4.0, 8.0, 16.0};
  std::vector<double> brief = plain(8, 10000.0), lasting = brief;
  for (std::size_t i = 0; i < 4; ++i)
    brief[i] /= rotary.scaling.short_factors[i], lasting[i] /= rotary.scaling.long_factors[i];
  EXPECT_TRUE(all_near(rotary_frequencies(rotary, 1024), brief, kRoundings));
  EXPECT_TRUE(all_near(rotary_frequencies(rotary, 1025), lasting, kRoundings));
  EXPECT_TRUE(model::same_frequencies(rotary, 1, 1024));
  EXPECT_FALSE(model::same_frequencies(rotary, 1024, 1025));
}

}  // namespace
}  // namespace nibble::test
