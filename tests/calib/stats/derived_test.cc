#include "calib/stats/derived.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

// X (tokens, in) with a large mean, and the statistics that belong to it.
struct Drawn {
  std::vector<std::vector<double>> x;
  std::vector<double> s;
  LayerStats stats;
};

Drawn draw(std::size_t tokens, std::size_t in, std::uint64_t seed) {
  Random random(seed);
  Drawn drawn;
  LayerSums sums("layer", 2, in, kEverything);
  sums.tokens = tokens;
  sums.samples = 4;
  for (std::size_t t = 0; t < tokens; ++t) {
    std::vector<double> x(in);
    for (std::size_t i = 0; i < in; ++i) x[i] = 2.0 * static_cast<double>(i) + random.normal();
    const double s = random.uniform();
    sums.sum_s += s;
    for (std::size_t i = 0; i < in; ++i) {
      sums.sum_x[i] += x[i];
      sums.sum_x2[i] += x[i] * x[i];
      sums.sum_abs_x[i] += std::abs(x[i]);
      sums.sum_s_x[i] += s * x[i];
      sums.min_x[i] = std::fmin(sums.min_x[i], static_cast<float>(x[i]));
      sums.max_x[i] = std::fmax(sums.max_x[i], static_cast<float>(x[i]));
      for (std::size_t j = 0; j < in; ++j) {
        sums.sum_xxt(i, j) += x[i] * x[j];
        sums.sum_s_xxt(i, j) += s * x[i] * x[j];
      }
    }
    drawn.x.push_back(x);
    drawn.s.push_back(s);
  }
  drawn.stats = sums.rounded();
  return drawn;
}

TEST(Derived, MeansDivideByTokensAndFisherByWindows) {
  const LayerStats layer = example_layer("layer", 5, 3, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(mean_input(layer)[i], layer.sum_x[i] / 21.0);
    EXPECT_EQ(second_moment(layer)[i], layer.sum_x2[i] / 21.0);
    EXPECT_EQ(mean_magnitude(layer)[i], layer.sum_abs_x[i] / 21.0);
  }
  EXPECT_EQ(mean_fisher(layer)(4, 2), static_cast<double>(layer.fisher(4, 2)) / 3.0);
}

TEST(Derived, CentredHessiansAreSumsAboutTheMean) {
  const std::size_t tokens = 40, in = 4;
  const Drawn drawn = draw(tokens, in, 9);
  for (const bool guided : {false, true}) {
    const HessianKind kind = guided ? HessianKind::kGuidedCentred : HessianKind::kCentred;
    const std::vector<double> mean = correction_mean(drawn.stats, kind);
    std::vector<double> expected(in * in), actual(in * in);
    const Matrix<double> h = hessian(drawn.stats, kind);
    for (std::size_t i = 0; i < in; ++i) {
      for (std::size_t j = 0; j < in; ++j) {
        for (std::size_t t = 0; t < tokens; ++t) {
          const double weight = guided ? drawn.s[t] : 1.0;
          expected[i * in + j] += weight * (drawn.x[t][i] - mean[i]) * (drawn.x[t][j] - mean[j]) / double(tokens);
        }
        actual[i * in + j] = h(i, j);
      }
    }
    // sum_xxt / N reaches (2·3)² + 1 = 37 here and is stored as float: 37 · 2^-24 = 2.2e-6.
    EXPECT_TRUE(test::all_near(actual, expected, {.abs = 3e-6}));
  }
}

TEST(Derived, PlainAndGuidedHessiansAreMeansOverTokens) {
  const LayerStats layer = example_layer("layer", 5, 3, 4);
  EXPECT_EQ(hessian(layer, HessianKind::kPlain)(2, 1), static_cast<double>(layer.sum_xxt(2, 1)) / 21.0);
  EXPECT_EQ(hessian(layer, HessianKind::kGuided)(0, 1), static_cast<double>(layer.sum_s_xxt(0, 1)) / 21.0);
  EXPECT_EQ(correction_mean(layer, HessianKind::kPlain), mean_input(layer));
  EXPECT_EQ(correction_mean(layer, HessianKind::kGuided)[1], layer.sum_s_x[1] / layer.sum_s);
}

TEST(Derived, OutputHessiansHaveAMeanDiagonalOfOneAndTheShapeOfTheSums) {
  const LayerStats layer = example_layer("layer", 5, 3, 4);
  const Matrix<double> h = output_hessian(layer);
  ASSERT_EQ(h.rows(), 5u);
  ASSERT_EQ(h.cols(), 5u);
  double trace = 0.0, sums = 0.0;
  for (std::size_t i = 0; i < 5; ++i) {
    trace += h(i, i);
    sums += static_cast<double>(layer.sum_dydyt(i, i));
  }
  EXPECT_TRUE(test::near(trace, 5.0, {.rel = 1e-15}));  // five roundings of a division and a product
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_TRUE(test::near(h(i, j), 5.0 * static_cast<double>(layer.sum_dydyt(i, j)) / sums, {.rel = 1e-15}));
      EXPECT_EQ(h(i, j), h(j, i));
    }
}

// Sequence and position flavours, more or fewer windows: gradients of another size say the same.
TEST(Derived, OutputHessiansDoNotDependOnTheSizeOfTheGradients) {
  const LayerStats layer = example_layer("layer", 5, 3, 4);
  LayerStats small = layer;
  for (float& value : small.sum_dydyt.values()) value *= 0x1p-90f;
  EXPECT_TRUE(test::same_bits(output_hessian(small).values(), output_hessian(layer).values()));
}

TEST(Derived, OutputsWithoutGradientsGetZeroRows) {
  LayerStats layer = example_layer("layer", 4, 3, 4, {.output_hessian = true});
  for (std::size_t i = 0; i < 4; ++i)  // what float products of tiny gradients leave beside a diagonal of 0
    layer.sum_dydyt(i, 2) = layer.sum_dydyt(2, i) = i == 2 ? 0.0f : 1e-40f;
  const Matrix<double> h = output_hessian(layer);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(h(i, 2), 0.0);
    EXPECT_EQ(h(2, i), 0.0);
  }
  EXPECT_TRUE(test::near(h(0, 0) + h(1, 1) + h(3, 3), 4.0, {.rel = 1e-15}));
  layer.sum_dydyt = Matrix<float>(4, 4);
  const Matrix<double> none = output_hessian(layer);
  EXPECT_EQ(none.rows(), 4u);
  for (const double value : none.values()) EXPECT_EQ(value, 0.0);
}

// An input that is 0 and one that is always 0.3, which no float sum represents exactly.
TEST(Derived, DeadAndConstantInputsGetZeroRows) {
  LayerSums sums("layer", 1, 3, kEverything);
  Random random(3);
  const std::size_t tokens = 1000;
  sums.tokens = tokens;
  sums.samples = 1;
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::vector<double> x = {0.0, 0.3, random.normal()};
    sums.sum_s += 1.0;
    for (std::size_t i = 0; i < 3; ++i) {
      sums.sum_x[i] += x[i];
      sums.sum_x2[i] += x[i] * x[i];
      sums.sum_s_x[i] += x[i];
      for (std::size_t j = 0; j < 3; ++j) {
        sums.sum_xxt(i, j) += x[i] * x[j];
        sums.sum_s_xxt(i, j) += x[i] * x[j];
      }
    }
  }
  const LayerStats layer = sums.rounded();
  EXPECT_EQ(dead_channels(layer), std::vector<std::size_t>{0});
  for (const HessianKind kind : {HessianKind::kCentred, HessianKind::kGuidedCentred}) {
    const Matrix<double> h = hessian(layer, kind);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(h(0, i), 0.0);
      EXPECT_EQ(h(1, i), 0.0);
      EXPECT_EQ(h(i, 1), 0.0);
    }
    EXPECT_GT(h(2, 2), 0.5);
  }
  EXPECT_GT(hessian(layer, HessianKind::kPlain)(1, 1), 0.08);
}

TEST(Derived, EffectiveTokensAreThoseOfEqualWeight) {
  EXPECT_EQ(effective_tokens(8.0, 16.0), 4.0) << "4 tokens of weight 2";
  EXPECT_EQ(effective_tokens(8.0, 64.0), 1.0) << "all of it in one token";
  EXPECT_TRUE(std::isnan(effective_tokens(8.0, std::nullopt)));
  EXPECT_TRUE(std::isnan(effective_tokens(0.0, 0.0)));
}

TEST(Derived, OutlierRatioIsTheLargestMagnitudeOverTheRms) {
  LayerSums sums("layer", 1, 2, {.activations = true});
  sums.tokens = 2;
  sums.samples = 1;
  sums.sum_x2 = {1.0 + 1.0, 0.0 + 100.0};  // x = (1, 0), (1, -10)
  sums.min_x = {1.0f, -10.0f};
  sums.max_x = {1.0f, 0.0f};
  EXPECT_TRUE(test::near(outlier_ratio(sums.rounded()), 10.0 / std::sqrt(102.0 / 4.0), {.rel = 1e-15}));
  sums.sum_x2 = {0.0, 0.0};
  sums.min_x = sums.max_x = {0.0f, 0.0f};
  EXPECT_EQ(outlier_ratio(sums.rounded()), 0.0);
}

TEST(Derived, MissingStatisticsAreNamed) {
  const LayerStats layer = example_layer("layer", 5, 3, 1, {.fisher = true});
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { mean_input(layer); }, "'layer'", "activations", "--collect"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { hessian(layer, HessianKind::kCentred); }, "hessian"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { output_hessian(layer); }, "'layer'", "output-hessian"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { mean_input(LayerSums("e", 1, 1, kEverything).rounded()); }, "'e'",
                                                 "no tokens"));
}

}  // namespace
}  // namespace nibble::calib
