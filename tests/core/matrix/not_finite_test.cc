#include "core/matrix/not_finite.h"

#include <gtest/gtest.h>

#include <limits>

namespace nibble {
namespace {

TEST(NotFinite, SaysWhetherAValueIsTooLargeOrNoNumber) {
  EXPECT_EQ(why_not_finite(-7e4, DType::kF16), "is too large for float16 (at most 65504)");
  EXPECT_EQ(why_not_finite(3.4e38, DType::kBF16), "is too large for bfloat16");
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(why_not_finite(std::numeric_limits<double>::quiet_NaN(), dtype), "is no finite number");
    EXPECT_EQ(why_not_finite(-std::numeric_limits<double>::infinity(), dtype), "is no finite number");
  }
}

}  // namespace
}  // namespace nibble
