#include "model/rotate/rotation.h"

#include <cmath>

#include "core/error.h"
#include "tests/model/rotate/explicit_rotation.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::Rotation;

// Of sums of `width` products of numbers below 1, each rounded a few times on its way through log2(width) stages.
Bound rounding(std::size_t width) { return {.abs = 0x1p-53 * 16.0 * static_cast<double>(width)}; }

class Widths : public testing::TestWithParam<std::size_t> {};

TEST_P(Widths, GiveOrthogonalMatrices) {
  const std::size_t n = GetParam();
  for (const bool keeps_ones : {false, true}) {
    const Rotation rotation(n, 5, keeps_ones);
    const Matrix<double> q = explicit_matrix({&rotation}, n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double product = 0.0;
        for (std::size_t k = 0; k < n; ++k) product += q(i, k) * q(j, k);
        ASSERT_TRUE(near(product, i == j ? 1.0 : 0.0, rounding(n))) << i << ", " << j;
      }
  }
}

TEST_P(Widths, KeepTheVectorOfOnesWhereTheyAreToldTo) {
  const std::size_t n = GetParam();
  const Rotation rotation(n, 6, true);
  std::vector<double> ones(n, 1.0);
  const std::vector<double> expected = ones;
  rotation.apply(ones);
  EXPECT_TRUE(all_near(ones, expected, rounding(n)));
}

TEST_P(Widths, AreLinear) {
  const std::size_t n = GetParam();
  const Rotation rotation(n, 7, true);
  const Matrix<double> q = explicit_matrix({&rotation}, n);
  std::vector<double> x(n), expected(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<double>(3 * i + 1));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) expected[j] += x[i] * q(i, j);
  rotation.apply(x);
  EXPECT_TRUE(all_near(x, expected, rounding(n)));
}

INSTANTIATE_TEST_SUITE_P(All, Widths, testing::Values(1u, 2u, 3u, 7u, 8u, 24u, 45u, 64u, 96u, 120u));

TEST(Rotation, ReachesEveryOutputFromEveryInput) {
  const Rotation rotation(24, 1);  // three blocks of eight
  const Matrix<double> q = explicit_matrix({&rotation}, 24);
  for (std::size_t i = 0; i < 24; ++i)
    for (std::size_t j = 0; j < 24; ++j) EXPECT_GT(std::abs(q(i, j)), 1e-6) << i << ", " << j;
}

TEST(Rotation, IsTheSameForTheSameSeedAlone) {
  const Rotation a(40, 1), same(40, 1), other(40, 2);
  std::vector<double> x(40, 0.0), y, z;
  x[3] = 1.0;
  y = z = x;
  a.apply(x);
  same.apply(y);
  other.apply(z);
  EXPECT_TRUE(same_bits(x, y));
  EXPECT_FALSE(all_near(x, z, {.abs = 1e-3}));
}

TEST(Rotation, TurnsPartsEachByItsOwn) {
  const Rotation first(4, 1), second(6, 2);
  std::vector<double> x(10), a(4), b(6);
  for (std::size_t i = 0; i < 10; ++i) (i < 4 ? a[i] : b[i - 4]) = x[i] = static_cast<double>(i) - 3.0;
  model::rotate_parts({&first, &second}, x);
  first.apply(a);
  second.apply(b);
  a.insert(a.end(), b.begin(), b.end());
  EXPECT_TRUE(same_bits(x, a));
}

TEST(Rotation, OfNothingIsRefused) {
  EXPECT_TRUE(throws_with<InvalidArgument>([] { Rotation(0, 1); }, "width", "0"));
}

}  // namespace
}  // namespace nibble::test
