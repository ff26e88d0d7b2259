#include "core/matrix/bf16_gemm.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

// Small integers: every partial sum is exact in float.
Matrix<std::uint16_t> small_integers(std::size_t rows, std::size_t cols, Random& random) {
  Matrix<std::uint16_t> m(rows, cols);
  for (std::uint16_t& value : m.values()) value = f32_to_bf16(static_cast<float>(random.below(17)) - 8.0f);
  return m;
}

TEST(Bf16Gemm, IsExactOnSmallIntegersAndStaysInsideItsView) {
  if (!has_bf16_gemm()) GTEST_SKIP() << "no bfloat16 instructions in force";
  Random random(1);
  for (const std::size_t m : {1u, 5u, 70u}) {
    for (const std::size_t n : {1u, 7u, 129u}) {
      for (const std::size_t k : {1u, 3u, 100u}) {
        for (const Transpose turned : {Transpose::kNo, Transpose::kYes}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
          const auto a = small_integers(m, k + 3, random);
          const auto b =
              turned == Transpose::kYes ? small_integers(n, k + 1, random) : small_integers(k, n + 1, random);
          const auto a_part = a.view().cols_slice(2, k);
          const auto b_part = b.view().cols_slice(1, b.cols() - 1);
          Matrix<float> c(m, n + 2);
          for (float& value : c.values()) value = 99.0f;
          bf16_gemm(turned, a_part, b_part, c.view().cols_slice(1, n));
          for (std::size_t i = 0; i < m; ++i) {
            ASSERT_EQ(c(i, 0), 99.0f);
            ASSERT_EQ(c(i, n + 1), 99.0f);
            for (std::size_t j = 0; j < n; ++j) {
              float sum = 0.0f;
              for (std::size_t l = 0; l < k; ++l)
                sum += bf16_to_f32(a_part(i, l)) * bf16_to_f32(turned == Transpose::kYes ? b_part(j, l) : b_part(l, j));
              ASSERT_EQ(c(i, j + 1), sum);
            }
          }
        }
      }
    }
  }
}

TEST(Bf16Gemm, RefusesShapesThatDoNotFitAndProcessorsWithoutIt) {
  const Matrix<std::uint16_t> a(2, 3), b(4, 2);
  Matrix<float> c(2, 2);
  const auto multiply = [&] { bf16_gemm(Transpose::kNo, a, b, c); };
  if (has_bf16_gemm()) {
    EXPECT_TRUE(test::throws_with<InvalidArgument>(multiply, "(2, 3)", "(4, 2)"));
  } else {
    EXPECT_TRUE(test::throws_with<InvalidArgument>(multiply, "no bfloat16 instructions"));
  }
}

}  // namespace
}  // namespace nibble
