#include "quant/tensor/usable_output_hessian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/compare.h"

namespace nibble::quant {
namespace {

TEST(UsableOutputHessian, OutputsWithoutGradientsCountAloneAHundredthOfTheMean) {
  Matrix<double> h(3, 3);
  h(0, 0) = 1.9, h(0, 2) = h(2, 0) = 0.3, h(2, 2) = 1.1;
  EXPECT_TRUE(test::same_bits(usable_output_hessian(h).values(),
                              std::vector<float>{1.9f, 0.0f, 0.3f, 0.0f, 0.01f, 0.0f, 0.3f, 0.0f, 1.1f}));
}

TEST(UsableOutputHessian, WithoutAnyGradientThereIsNone) {
  EXPECT_EQ(usable_output_hessian(Matrix<double>(3, 3)).size(), 0u);
  EXPECT_EQ(usable_output_hessian({}).size(), 0u);
}

TEST(UsableOutputHessian, WhatIsNoNumberStays) {
  Matrix<double> h(2, 2);
  h(0, 0) = std::numeric_limits<double>::quiet_NaN();
  const Matrix<float> usable = usable_output_hessian(h);
  ASSERT_EQ(usable.size(), 4u);
  EXPECT_TRUE(std::isnan(usable(0, 0)));
  EXPECT_EQ(usable(1, 1), 0.01f);
}

}  // namespace
}  // namespace nibble::quant
