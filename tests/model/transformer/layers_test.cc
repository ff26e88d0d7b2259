#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "model/transformer/layers/clip.h"
#include "model/transformer/layers/norm.h"
#include "model/transformer/layers/rope.h"
#include "model/transformer/layers/softcap.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::Layout;
using model::Rotary;
using model::RotaryScaling;
using model::RotarySpec;

// Arguments on both sides of where the formula changes (0.4 caps), in the saturated tails, and beyond what exp() holds.
// 10 ulp are 6e-7.
TEST(Softcap, FloatIsWithinTenUlpOfTheDefinition) {
  for (const double cap : {0.5, 30.0, 50.0}) {
    std::vector<float> x, expected;
    for (double u = -6.0; u <= 6.0; u += 0.0037) x.push_back(static_cast<float>(u * cap));
    for (const double u : {0.0, 1e-20, -1e-4, 0.3999999, 0.4000001, 100.0, -100.0, 1e30, -1e30})
      x.push_back(static_cast<float>(u * cap));
    for (const float value : x)
      expected.push_back(static_cast<float>(cap * std::tanh(static_cast<double>(value) / cap)));
    model::softcap_row(x.data(), x.size(), cap);
    EXPECT_TRUE(all_near(x, expected, {.rel = 6e-7})) << cap;
  }
}

TEST(Softcap, KeepsNotANumberVisible) {
  float x[] = {1.0f, std::nanf(""), 2.0f};
  model::softcap_row(x, 3, 30.0);
  EXPECT_TRUE(std::isnan(x[1]));
}

TEST(Softcap, SlopeIsTheDerivative) {
  std::vector<std::complex<double>> x;
  for (double u = -3.0; u <= 3.0; u += 0.1) x.emplace_back(2.0 * u, 1e-30);
  model::softcap_row(x.data(), x.size(), 2.0);
  std::vector<double> y, slope(x.size()), expected;
  for (const auto& value : x) {
    y.push_back(value.real());
    expected.push_back(value.imag() / 1e-30);
  }
  model::softcap_slope_row(y.data(), slope.data(), y.size(), 2.0);
  EXPECT_TRUE(all_near(slope, expected, {.abs = 1e-14}));
}

Layout layout_of_positions(std::vector<std::size_t> positions) { return {{0, positions.size()}, std::move(positions)}; }

Matrix<double> random_rows(std::size_t rows, std::size_t cols) {
  Random random(rows + cols);
  Matrix<double> x(rows, cols);
  for (double& value : x.values()) value = random.normal();
  return x;
}

TEST(Rotary, KeepsATableOfTheCallAndNoMore) {
  RotarySpec spec;
  spec.dims = 6;
  Rotary<double> rotary(spec);
  const auto turn = [&](std::size_t first, std::size_t count) {
    std::vector<std::size_t> positions(count);
    std::iota(positions.begin(), positions.end(), first);
    Matrix<double> x = random_rows(count, 16);
    rotary.rotate(x, 8, layout_of_positions(positions), Rotary<double>::Direction::kForward);
    return x;
  };
  const std::size_t per_position = 6 * sizeof(double);
  turn(0, 100);
  EXPECT_EQ(rotary.table_bytes(), 100 * per_position);
  const Matrix<double> far = turn(std::size_t{1} << 40, 1);
  EXPECT_EQ(rotary.table_bytes(), per_position);
  turn(0, 100);
  EXPECT_TRUE(same_bits(turn(std::size_t{1} << 40, 1).values(), far.values()));
}

// <R x, y> = <x, Rᵀ y>, with a magnitude that an inverse would divide by.
TEST(Rotary, BackwardIsTheTransposedMatrix) {
  for (const bool interleaved : {false, true}) {
    RotarySpec spec;
    spec.dims = 6;
    spec.interleaved = interleaved;
    spec.scaling.magnitude = 1.7;
    Rotary<double> rotary(spec);
    const Layout layout = layout_of_positions({3, 4, 5});
    const Matrix<double> x = random_rows(3, 14), y = random_rows(3, 14 * 1);
    Matrix<double> rx = x, ry = y;
    rotary.rotate(rx, 7, layout, Rotary<double>::Direction::kForward);
    rotary.rotate(ry, 7, layout, Rotary<double>::Direction::kBackward);
    const auto dot = [](const Matrix<double>& a, const Matrix<double>& b) {
      return std::inner_product(a.values().begin(), a.values().end(), b.values().begin(), 0.0);
    };
    EXPECT_TRUE(near(dot(rx, y), dot(x, ry), {.rel = 1e-13}));
    EXPECT_EQ(rx(1, 6), x(1, 6));  // behind the turned ones
  }
}

// Each sequence of a batch has the frequencies of its own length.
TEST(Rotary, FrequenciesFollowEachSequence) {
  RotarySpec spec;
  spec.dims = 4;
  spec.scaling.kind = RotaryScaling::Kind::kLongRope;
  spec.scaling.original_context = 4;
  spec.scaling.short_factors = {1.0, 2.0};
  spec.scaling.long_factors = {3.0, 5.0};
  Rotary<double> rotary(spec);
  const Matrix<double> x = random_rows(9, 4);
  Matrix<double> together = x;
  rotary.rotate(together, 4, {{0, 3, 9}, {0, 1, 2, 0, 1, 2, 3, 4, 5}}, Rotary<double>::Direction::kForward);
  const auto expected = [&](std::size_t row, double position, const std::vector<double>& factors) {
    std::vector<double> y(4);
    for (std::size_t i = 0; i < 2; ++i) {
      const double angle = position * std::pow(10000.0, -0.5 * static_cast<double>(i)) / factors[i];
      y[i] = x(row, i) * std::cos(angle) - x(row, i + 2) * std::sin(angle);
      y[i + 2] = x(row, i + 2) * std::cos(angle) + x(row, i) * std::sin(angle);
    }
    return y;
  };
  EXPECT_TRUE(all_near(together.row(2), expected(2, 2.0, spec.scaling.short_factors), {.abs = 1e-14}));
  EXPECT_TRUE(all_near(together.row(5), expected(5, 2.0, spec.scaling.long_factors), {.abs = 1e-14}));
}

TEST(Norm, RefusesGainsThatDoNotFit) {
  using Norm = model::Norm<double>;
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [] {
        Norm(Norm::Kind::kRms, 4, {1.0, 2.0, 3.0}, {}, 1e-5);
      },
      "norm", "got 3"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { Norm(Norm::Kind::kRms, 4, {}, {1.0}, 1e-5); }, "norm", "got 1"));
}

TEST(Clip, StopsGradientsOfWhatItChanged) {
  Matrix<double> x(1, 4), dx(1, 4);
  const double values[] = {-3.0, -0.5, 0.5, 3.0};
  std::copy_n(values, 4, x.data());
  std::fill(dx.values().begin(), dx.values().end(), 1.0);
  model::clamp_to<double>(x, 1.0);
  model::clamp_backward<double>(x, 1.0, dx);
  EXPECT_TRUE(same_bits(x.values(), std::vector<double>{-1.0, -0.5, 0.5, 1.0}));
  EXPECT_TRUE(same_bits(dx.values(), std::vector<double>{0.0, 1.0, 1.0, 0.0}));
}

}  // namespace
}  // namespace nibble::test
