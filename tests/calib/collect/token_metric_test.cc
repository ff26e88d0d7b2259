#include "calib/collect/token_metric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::calib {
namespace {

Matrix<double> moment_of(const std::vector<std::vector<double>>& gradients) {
  const std::size_t out = gradients[0].size();
  Matrix<double> moment(out, out);
  for (std::size_t i = 0; i < out; ++i)
    for (std::size_t j = 0; j < out; ++j)
      for (const auto& g : gradients) moment(i, j) += g[i] * g[j];
  return moment;
}

// Directions differ in size by up to 100.
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
constexpr double kBound = 2e-4, kDamping = 0.1;

TEST(TokenMetric, WhitensByTheInverseOfTheDampedMoment) {
  constexpr std::size_t kOut = 100;
  const Matrix<double> moment = moment_of(drawn(40, kOut, 1));
  const Matrix<float> w = whitening(moment, kDamping);
  ASSERT_EQ(w.rows(), kOut);
  double trace = 0.0;
  for (std::size_t i = 0; i < kOut; ++i) trace += moment(i, i);
  // WᵀW M is c times the unit matrix.
  Matrix<double> product(kOut, kOut);
  for (std::size_t i = 0; i < kOut; ++i) {
    for (std::size_t k = 0; k < kOut; ++k) {
      double metric = 0.0;
      for (std::size_t l = 0; l < kOut; ++l) metric += static_cast<double>(w(l, i)) * static_cast<double>(w(l, k));
      for (std::size_t j = 0; j < kOut; ++j)
        product(i, j) += metric * (moment(k, j) * kOut / trace + (k == j ? kDamping : 0.0));
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

TEST(TokenMetric, LeavesTheMeanSizeAsItIs) {
  constexpr std::size_t kOut = 100;
  const auto gradients = drawn(40, kOut, 2);
  const Matrix<float> w = whitening(moment_of(gradients), kDamping);
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

TEST(TokenMetric, WhitensOneDirectionAsFarAsItIsDamped) {
  Matrix<double> moment(2, 2);
  moment(0, 0) = 4.0;  // M = diag(2.1, 0.1), tr S / tr(M⁻¹ S) = 2.1
  const Matrix<float> w = whitening(moment, kDamping);
  EXPECT_TRUE(test::near(static_cast<double>(w(0, 0)), 1.0, {.rel = 1e-6}));
  EXPECT_TRUE(test::near(static_cast<double>(w(1, 1)), std::sqrt(21.0), {.rel = 1e-6}));
}

TEST(TokenMetric, RaisesTheDampingOfWhatRoundingMadeIndefinite) {
  Matrix<double> moment(2, 2);
  moment(0, 0) = moment(1, 1) = 1.0;
  moment(0, 1) = moment(1, 0) = 1.5;  // with 0.1 and 1: no; 10: yes
  const Matrix<float> w = whitening(moment, 0.1);
  EXPECT_TRUE(test::near(static_cast<double>(w(0, 0)), static_cast<double>(w(1, 1)), {.rel = 0.05}));
  EXPECT_NO_THROW(whitening(moment, 2e4)) << "a token or two of ten thousands of channels";
  moment(0, 0) = std::nan("");
  EXPECT_THROW(whitening(moment, 0.1), NumericalError);
  EXPECT_THROW(whitening(Matrix<double>(2, 2), 0.1), NumericalError);
}

// Tokens of the same distribution as the few that gave the metric weigh at most about twice what they would plainly.
TEST(TokenMetric, OfFewTokensDoesNotBlowUpOthers) {
  constexpr std::size_t kOut = 200;
  for (const std::size_t tokens : {1u, 10u, 50u, 200u, 1000u}) {
    const auto first = drawn(tokens, kOut, 3), others = drawn(500, kOut, 4);
    const Matrix<float> w = whitening(moment_of(first), metric_damping(kOut, tokens));
    double plain = 0.0, whitened = 0.0;
    for (const auto& g : others) {
      for (std::size_t i = 0; i < kOut; ++i) {
        double z = 0.0;
        for (std::size_t j = 0; j <= i; ++j) z += static_cast<double>(w(i, j)) * g[j];
        whitened += z * z;
        plain += g[i] * g[i];
      }
    }
    EXPECT_GT(whitened, 0.8 * plain) << tokens;
    EXPECT_LT(whitened, 2.5 * plain) << tokens;
  }
}

LayerStats layer_of(std::uint64_t tokens) {
  LayerStats layer;
  layer.module = "layer";
  layer.out = layer.in = 2;
  layer.tokens = tokens;
  layer.samples = 1;
  layer.sum_x = layer.sum_x2 = layer.sum_abs_x = std::vector<double>(2);
  layer.min_x = layer.max_x = std::vector<float>(2);
  layer.sum_xxt = layer.sum_dydyt = Matrix<float>(2, 2);
  return layer;
}

TEST(TokenMetric, IsNoneWhereThereIsNothingToMeasureBy) {
  for (const LayerStats& layer : {layer_of(0), layer_of(5)}) {
    const TokenMetric metric = token_metric(layer);
    EXPECT_EQ(metric.gradients.rows(), 0u);
    EXPECT_EQ(metric.inputs.rows(), 0u);
  }
  LayerStats dead = layer_of(5);  // inputs, and no gradient
  dead.sum_x[0] = 10.0, dead.sum_xxt(0, 0) = 40.0f;
  const TokenMetric metric = token_metric(dead);
  EXPECT_EQ(metric.gradients.rows(), 0u);
  LayerStats follower = layer_of(5);  // whose inputs are another layer's
  follower.sum_dydyt(0, 0) = 1.0f;
  follower.sum_xxt = {};
  EXPECT_EQ(token_metric(follower).inputs.rows(), 0u);
  EXPECT_EQ(token_metric(follower).gradients.rows(), 2u);
  // Mean 2, variance 4: of x = 4, r = |W (4 - 2)|² / in = 1, as of a mean token.
  ASSERT_EQ(metric.inputs.rows(), 2u);
  EXPECT_EQ(metric.mean[0], 2.0);
  EXPECT_TRUE(test::near(std::pow(static_cast<double>(metric.inputs(0, 0)) * 2.0, 2.0) / 2.0, 1.0, {.rel = 1e-6}));
}

}  // namespace
}  // namespace nibble::calib
