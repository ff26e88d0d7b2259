#include "core/text/estimate.h"

#include <gtest/gtest.h>

#include <limits>

namespace nibble {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Estimate, AnErrorHasADigitOfItsOwn) {
  EXPECT_EQ(decimals_beside(0.25, 3), 3);
  EXPECT_EQ(decimals_beside(0.0012, 3), 3);
  EXPECT_EQ(decimals_beside(0.0009, 3), 4);
  EXPECT_EQ(decimals_beside(0.0009, 6), 6);
  EXPECT_EQ(decimals_beside(0.0, 3), 3);
  EXPECT_EQ(decimals_beside(kNaN, 3), 3);
  EXPECT_EQ(decimals_beside(std::numeric_limits<double>::infinity(), 3), 3);
  EXPECT_EQ(decimals_beside(1e-300, 3), 12);
  EXPECT_EQ(decimals_beside(1e9, 2), 2);
}

TEST(Estimate, IsPrintedWithItsErrorsDigits) {
  EXPECT_EQ(estimate_text(25.83124, 1.70213, 4), "25.8312 ± 1.7021");
  EXPECT_EQ(estimate_text(3.4e-5, 3.1e-7, 6), "0.0000340 ± 0.0000003");
  EXPECT_EQ(estimate_text(25.83124, kNaN, 4), "25.8312");
  EXPECT_EQ(estimate_text(10.0, 0.0, 3), "10.000 ± 0.000");
}

TEST(Estimate, OfADifferenceHasItsSign) {
  EXPECT_EQ(signed_estimate_text(-0.012345, 0.00042, 3), "−0.0123 ± 0.0004");
  EXPECT_EQ(signed_estimate_text(3.61, 0.02, 2), "+3.61 ± 0.02");
  EXPECT_EQ(signed_estimate_text(3.61, kNaN, 2), "+3.61");
  EXPECT_EQ(signed_number(-0.2, 2), "−0.20");
}

}  // namespace
}  // namespace nibble
