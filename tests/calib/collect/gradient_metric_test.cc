#include "calib/collect/gradient_metric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::calib {
namespace {

// Σ g gᵀ over `tokens`, of directions that differ in size by up to 100.
Matrix<float> sums_of(const std::vector<std::vector<double>>& gradients) {
  const std::size_t out = gradients[0].size();
  Matrix<float> sums(out, out);
  for (std::size_t i = 0; i < out; ++i) {
    for (std::size_t j = 0; j < out; ++j) {
      double sum = 0.0;
      for (const auto& g : gradients) sum += g[i] * g[j];
      sums(i, j) = static_cast<float>(sum);
    }
  }
  return sums;
}

std::vector<std::vector<double>> drawn(std::size_t tokens, std::size_t out, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<double>> gradients(tokens, std::vector<double>(out));
  for (auto& g : gradients) {
    const double common = random.normal();
    for (std::size_t i = 0; i < out; ++i) g[i] = 1e-4 * (common + (i % 10 == 0 ? 1.0 : 0.01) * random.normal());
  }
  return gradients;
}

// L⁻¹ in float has errors of the condition of L, the root of M's, at most sqrt((out + 0.1) / 0.1) = 32, times out / 2
// roundings; two factors of it meet in WᵀW M: 2 · 32 · 50 · 2^-24 = 2e-4.
constexpr double kBound = 2e-4;

TEST(GradientMetric, IsTheInverseOfTheDampedOutputHessian) {
  constexpr std::size_t kOut = 100;
  const Matrix<float> sums = sums_of(drawn(40, kOut, 1)), w = whitening(sums);
  ASSERT_EQ(w.rows(), kOut);
  double trace = 0.0;
  for (std::size_t i = 0; i < kOut; ++i) trace += static_cast<double>(sums(i, i));
  // WᵀW M is c times the unit matrix.
  Matrix<double> product(kOut, kOut);
  for (std::size_t i = 0; i < kOut; ++i) {
    for (std::size_t k = 0; k < kOut; ++k) {
      double metric = 0.0;
      for (std::size_t l = 0; l < kOut; ++l) metric += static_cast<double>(w(l, i)) * static_cast<double>(w(l, k));
      for (std::size_t j = 0; j < kOut; ++j)
        product(i, j) += metric * (static_cast<double>(sums(k, j)) * kOut / trace + (k == j ? kGuideDamping : 0.0));
    }
  }
  const double c = product(0, 0);
  EXPECT_GT(c, 0.0);
  for (std::size_t i = 0; i < kOut; ++i)
    for (std::size_t j = 0; j < kOut; ++j)
      EXPECT_TRUE(test::near(product(i, j) / c, i == j ? 1.0 : 0.0, {.abs = kBound})) << i << ", " << j;
  for (std::size_t i = 0; i < kOut; ++i)
    for (std::size_t j = i + 1; j < kOut; ++j) EXPECT_EQ(w(i, j), 0.0f);
}

TEST(GradientMetric, LeavesTheSumOfWeightsAsItIs) {
  constexpr std::size_t kOut = 100;
  const auto gradients = drawn(40, kOut, 2);
  const Matrix<float> w = whitening(sums_of(gradients));
  double plain = 0.0, whitened = 0.0;
  for (const auto& g : gradients) {
    for (std::size_t i = 0; i < kOut; ++i) {
      double z = 0.0;
      for (std::size_t j = 0; j < kOut; ++j) z += static_cast<double>(w(i, j)) * g[j];
      whitened += z * z;
      plain += g[i] * g[i];
    }
  }
  EXPECT_TRUE(test::near(whitened, plain, {.rel = kBound}));
}

TEST(GradientMetric, OfNoGradientIsNone) { EXPECT_EQ(whitening(Matrix<float>(3, 3)).rows(), 0u); }

TEST(GradientMetric, OfOneDirectionIsDamped) {
  Matrix<float> sums(2, 2);
  sums(0, 0) = 4.0f;  // M = diag(2.1, 0.1), tr S / tr(M⁻¹ S) = 2.1
  const Matrix<float> w = whitening(sums);
  EXPECT_TRUE(test::near(static_cast<double>(w(0, 0)), 1.0, {.rel = 1e-6}));
  EXPECT_TRUE(test::near(static_cast<double>(w(1, 1)), std::sqrt(21.0), {.rel = 1e-6}));
}

}  // namespace
}  // namespace nibble::calib
