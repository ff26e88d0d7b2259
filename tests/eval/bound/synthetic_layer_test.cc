#include "eval/bound/synthetic_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calib/stats/derived.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using eval::LayerModel;
using eval::SyntheticLayer;

constexpr LayerModel kFewWeights{.rows = 5, .columns = 7};

// tr(G Δ H Δᵀ) / (rows · columns), in plain loops.
double plain_error(const SyntheticLayer& layer, const Matrix<double>& delta) {
  double sum = 0.0;
  for (std::size_t i = 0; i < delta.rows(); ++i)
    for (std::size_t k = 0; k < delta.rows(); ++k)
      for (std::size_t j = 0; j < delta.cols(); ++j)
        for (std::size_t l = 0; l < delta.cols(); ++l)
          sum += layer.output_covariance(i, k) * delta(k, l) * layer.input_covariance(l, j) * delta(i, j);
  return sum / static_cast<double>(delta.rows() * delta.cols());
}

TEST(SyntheticLayer, HasSymmetricCovariancesOfMeanDiagonalOne) {
  const SyntheticLayer layer = eval::make_layer({.rows = 24, .columns = 40}, 3);
  for (const Matrix<double>* covariance : {&layer.input_covariance, &layer.output_covariance}) {
    const std::size_t n = covariance->rows();
    double trace = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      trace += (*covariance)(i, i);
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_TRUE(near((*covariance)(i, j), (*covariance)(j, i), {.abs = 1e-14})) << i << ", " << j;
    }
    EXPECT_TRUE(near(trace, static_cast<double>(n), {.rel = 1e-13}));
  }
}

TEST(SyntheticLayer, HasThePowerLawThatWasAskedFor) {
  const SyntheticLayer layer =
      eval::make_layer({.rows = 16, .columns = 32, .input_power = 1.5, .output_power = 0.25, .spread = 0.0}, 4);
  const auto check = [](std::vector<double> values, double power) {
    std::vector<double> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) expected[i] = std::pow(static_cast<double>(i + 1), -power);
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    for (double& value : expected) value *= static_cast<double>(values.size()) / sum;
    std::sort(values.rbegin(), values.rend());
    // Eigenvalues come out within the largest one's rounding, times their number.
    EXPECT_TRUE(all_near(values, expected, {.abs = expected[0] * 0x1p-53 * 32.0 * 16.0}));
  };
  check(layer.input_variances, 1.5);
  check(layer.output_variances, 0.25);
}

TEST(SyntheticLayer, SpreadsTheSizesOfItsInputs) {
  const auto spread_of = [](double spread) {
    const SyntheticLayer layer = eval::make_layer({.rows = 8, .columns = 64, .spread = spread}, 5);
    double largest = 0.0, smallest = 1e300;
    for (std::size_t j = 0; j < 64; ++j) {
      largest = std::fmax(largest, layer.input_covariance(j, j));
      smallest = std::fmin(smallest, layer.input_covariance(j, j));
    }
    return largest / smallest;
  };
  EXPECT_GT(spread_of(1.0), 10.0 * spread_of(0.0));  // squares of exp(± 2) and more, of 64 draws
}

TEST(SyntheticLayer, WeighsErrorsByBothCovariances) {
  const SyntheticLayer layer = eval::make_layer(kFewWeights, 6);
  Random random(7);
  Matrix<float> decoded(5, 7);
  Matrix<double> delta(5, 7), weight(5, 7);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    decoded.data()[i] = static_cast<float>(random.normal());
    weight.data()[i] = static_cast<double>(layer.weight.data()[i]);
    delta.data()[i] = static_cast<double>(decoded.data()[i]) - weight.data()[i];
  }
  // Sums of 35 products of two sums each, in double.
  constexpr Bound kSums{.rel = 0x1p-53 * 256.0};
  EXPECT_TRUE(near(eval::weighed_error(layer, decoded), plain_error(layer, delta), kSums));
  EXPECT_TRUE(near(eval::weighed_power(layer), plain_error(layer, weight), kSums));
  EXPECT_EQ(eval::weighed_error(layer, layer.weight), 0.0);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { eval::weighed_error(layer, Matrix<float>(7, 5)); }, "5 by 7"));
}

TEST(SyntheticLayer, DrawsWeightsOfVarianceOneWithTheTailAskedFor) {
  const auto moments = [](std::uint64_t tail) {
    const SyntheticLayer layer = eval::make_layer({.rows = 200, .columns = 300, .tail = tail}, 8);
    double second = 0.0, beyond = 0.0;
    for (const float value : layer.weight.values()) {
      const auto w = static_cast<double>(value);
      second += w * w / 60000.0;
      if (std::abs(w) > 4.0) beyond += 1.0;
    }
    return std::pair(second, beyond);
  };
  // Five standard errors of 60,000 draws: √((κ - 1) / n), with κ = 3 of normal values, 9 of t with 5 degrees.
  const auto [normal, normal_beyond] = moments(0);
  EXPECT_TRUE(near(normal, 1.0, {.abs = 5.0 * std::sqrt(2.0 / 60000.0)}));
  const auto [heavy, heavy_beyond] = moments(5);
  EXPECT_TRUE(near(heavy, 1.0, {.abs = 5.0 * std::sqrt(8.0 / 60000.0)}));
  EXPECT_LT(normal_beyond, 20.0);  // 3.8 expected beyond four deviations
  EXPECT_GT(heavy_beyond, 150.0);  // 2 P(t₅ > 4 √(5/3)) = 0.0036: 215
}

TEST(SyntheticLayer, GivesStatisticsThatSayWhatItIs) {
  const SyntheticLayer layer = eval::make_layer(kFewWeights, 9);
  const calib::LayerStats stats = eval::exact_statistics(layer, "a.layer");
  calib::check_layer(stats, "test");
  EXPECT_EQ(stats.module, "a.layer");
  constexpr Bound kFloat{.abs = 0x1p-23 * 4.0, .rel = 0x1p-23};  // stored as float, near 1
  for (const auto kind : {calib::HessianKind::kPlain, calib::HessianKind::kCentred, calib::HessianKind::kGuided,
                          calib::HessianKind::kGuidedCentred}) {
    const Matrix<double> h = calib::hessian(stats, kind);
    EXPECT_TRUE(all_near(h.values(), layer.input_covariance.values(), kFloat));
  }
  EXPECT_TRUE(all_near(calib::output_hessian(stats).values(), layer.output_covariance.values(), kFloat));
  const Matrix<double> fisher = calib::mean_fisher(stats);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 7; ++j)
      EXPECT_TRUE(near(fisher(i, j), layer.output_covariance(i, i) * layer.input_covariance(j, j), {.rel = 0x1p-23}));
  for (std::size_t j = 0; j < 7; ++j) {
    const double variance = layer.input_covariance(j, j);
    EXPECT_TRUE(near(calib::second_moment(stats)[j], variance, {.rel = 1e-15}));
    EXPECT_TRUE(near(calib::mean_magnitude(stats)[j], 0.7978845608028654 * std::sqrt(variance), {.rel = 1e-14}));
    EXPECT_EQ(calib::mean_input(stats)[j], 0.0);
  }
}

TEST(SyntheticLayer, IsTheSameForTheSameSeed) {
  const SyntheticLayer one = eval::make_layer(kFewWeights, 1), again = eval::make_layer(kFewWeights, 1),
                       other = eval::make_layer(kFewWeights, 2);
  EXPECT_TRUE(same_bits(one.weight.values(), again.weight.values()));
  EXPECT_TRUE(same_bits(one.input_covariance.values(), again.input_covariance.values()));
  EXPECT_FALSE(same_bits(one.weight.values(), other.weight.values()));
  EXPECT_FALSE(same_bits(one.input_covariance.values(), other.input_covariance.values()));
}

TEST(SyntheticLayer, LowersItsBoundByTheTail) {
  const SyntheticLayer normal = eval::make_layer({.rows = 8, .columns = 8, .tail = 0}, 1),
                       heavy = eval::make_layer({.rows = 8, .columns = 8, .tail = 3}, 1);
  EXPECT_EQ(normal.entropy_power, 1.0);
  EXPECT_EQ(heavy.entropy_power, eval::entropy_power_of_student_t(3.0));
  EXPECT_TRUE(near(normal.bound().variance(), 1.0, {.rel = 1e-12}));
  EXPECT_TRUE(near(heavy.bound().variance(), heavy.entropy_power, {.rel = 1e-12}));
}

TEST(SyntheticLayer, RefusesWhatCannotBeDrawn) {
  EXPECT_TRUE(throws_with<NumericalError>([] { eval::make_layer({.rows = 8, .columns = 256, .input_power = 8.0}, 0); },
                                          "256 variables", "lower powers"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { eval::make_layer({.rows = 0}, 0); }, "rows and columns"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { eval::make_layer({.tail = 2}, 0); }, "tail", "3 or more"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { eval::make_layer({.input_power = -1.0}, 0); }, "input power", "-1"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { eval::make_layer({.spread = std::nan("")}, 0); }, "spread"));
}

}  // namespace
}  // namespace nibble::test
