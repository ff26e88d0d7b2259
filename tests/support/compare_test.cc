#include "tests/support/compare.h"

#include <cmath>
#include <limits>
#include <vector>

namespace nibble::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
using Values = std::vector<float>;

TEST(AllNear, EqualValuesPassAtZeroTolerance) { EXPECT_TRUE(all_near(Values{1, -2, 0}, Values{1, -2, 0}, {})); }

TEST(AllNear, NanNeverPasses) {
  const Bound generous{1e30, 1e30};
  EXPECT_FALSE(all_near(Values{kNan}, Values{0}, generous));
  EXPECT_FALSE(all_near(Values{0}, Values{kNan}, generous));
  EXPECT_FALSE(all_near(Values{kNan}, Values{kNan}, generous));
}

TEST(AllNear, SignFlipAndBothNegativeAreSeen) {
  EXPECT_FALSE(all_near(Values{-1}, Values{1}, {0, 0.5}));
  EXPECT_FALSE(all_near(Values{-50}, Values{-5}, {0, 0.5}));
  EXPECT_TRUE(all_near(Values{-5.1f}, Values{-5}, {0, 0.05}));
}

TEST(AllNear, SizesMustAgree) {
  EXPECT_FALSE(all_near(Values{1, 2}, Values{1}, {1e9, 0}));
  EXPECT_FALSE(all_near(Values{}, Values{1}, {1e9, 0}));
  EXPECT_TRUE(all_near(Values{}, Values{}, {}));
}

TEST(AllNear, InfinityPassesOnlyForItself) {
  EXPECT_TRUE(all_near(Values{kInf, -kInf}, Values{kInf, -kInf}, {}));
  EXPECT_FALSE(all_near(Values{1e30f}, Values{kInf}, {0, 1}));
  EXPECT_FALSE(all_near(Values{kInf}, Values{1}, {1e30, 1e30}));
  EXPECT_FALSE(all_near(Values{-kInf}, Values{kInf}, {1e30, 1e30}));
}

TEST(AllNear, OneUlpIsSeenAtZeroTolerance) {
  EXPECT_FALSE(all_near(Values{std::nextafter(1.0f, 2.0f)}, Values{1.0f}, {}));
  EXPECT_TRUE(all_near(Values{std::nextafter(1.0f, 2.0f)}, Values{1.0f}, {0, 1.2e-7}));
}

TEST(AllNear, OneBadElementAmongManyFailsAndIsNamed) {
  Values actual(1000, 1.0f);
  actual[717] = 1.5f;
  const auto result = all_near(actual, Values(1000, 1.0f), {0, 1e-3});
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("[717]"), std::string::npos) << result.message();
}

TEST(RelativeErrorWithin, MeasuresTheNormOfTheDifference) {
  EXPECT_TRUE(relative_error_within(Values{3, 4.05f}, Values{3, 4}, 0.0101));  // 0.05 / 5
  EXPECT_FALSE(relative_error_within(Values{3, 4.05f}, Values{3, 4}, 0.0099));
}

TEST(RelativeErrorWithin, BadInputsNeverPass) {
  EXPECT_FALSE(relative_error_within(Values{kNan, 1}, Values{1, 1}, 1e9));
  EXPECT_FALSE(relative_error_within(Values{1, 1}, Values{kNan, 1}, 1e9));
  EXPECT_FALSE(relative_error_within(Values{1, 1}, Values{kInf, 1}, 1e9));
  EXPECT_FALSE(relative_error_within(Values{kInf}, Values{kInf}, 1e9));
  EXPECT_FALSE(relative_error_within(Values{1e-3f}, Values{0}, 1e9));
  EXPECT_FALSE(relative_error_within(Values{1}, Values{1, 1}, 1e9));
  EXPECT_TRUE(relative_error_within(Values{0, 0}, Values{0, 0}, 0));
}

TEST(SameBits, TellsZerosApartAndAcceptsTheSameNan) {
  EXPECT_TRUE(same_bits(Values{1, kNan}, Values{1, kNan}));
  EXPECT_FALSE(same_bits(Values{0.0f}, Values{-0.0f}));
  EXPECT_FALSE(same_bits(Values{1}, Values{1, 1}));
}

}  // namespace
}  // namespace nibble::test
