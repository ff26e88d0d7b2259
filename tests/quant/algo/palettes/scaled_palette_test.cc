#include "quant/algo/palettes/scaled_palette.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/kmeans/sensitivity.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::near;
using test::same_bits;
using test::throws_with;

constexpr std::size_t kRows = 24, kCols = 40;

// Rows of very different size, of both leanings.
Matrix<float> lopsided_rows(std::uint64_t seed) {
  Random random(seed);
  Matrix<float> w(kRows, kCols);
  for (std::size_t i = 0; i < kRows; ++i) {
    const double size = 0.02 * std::exp(random.normal()), sign = i % 3 == 0 ? -1.0 : 1.0;
    for (float& value : w.row(i)) {
      const double x = random.normal();
      value = static_cast<float>(sign * size * (x + 0.4 * (x * x - 1.0)));
    }
  }
  return w;
}

Matrix<float> positive_weights(std::uint64_t seed) {
  Random random(seed);
  Matrix<float> weights(kRows, kCols);
  for (float& value : weights.values()) value = static_cast<float>(std::exp(2.0 * random.normal()));
  return weights;
}

// Equation (1) in plain loops.
double cost_of(const Matrix<float>& w, const Matrix<float>& weights, const ScaledPalettization& p, std::size_t group) {
  double cost = 0.0;
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); ++j) {
      const float decoded = p.scales[i] * p.palettes(group == 0 ? 0 : i / group, p.codes(i, j));
      const double error = static_cast<double>(w(i, j)) - static_cast<double>(decoded);
      cost += (weights.size() == 0 ? 1.0 : static_cast<double>(weights(i, j))) * error * error;
    }
  return cost;
}

ScaledPalettization scaled(const Matrix<float>& w, const Matrix<float>& weights, ScaledPaletteOptions options) {
  return palettize_scaled(w, weights.size() == 0 ? MatrixView<const float>() : weights.view(), options);
}

TEST(RowScales, AreTheStandardDeviationAroundTheMean) {
  const Matrix<float> w = lopsided_rows(1);
  const auto scales = row_scales(w, RowScale::kStd);
  for (std::size_t i = 0; i < kRows; ++i) {
    double mean = 0.0, squares = 0.0;
    for (const float value : w.row(i)) mean += static_cast<double>(value) / kCols;
    for (const float value : w.row(i)) squares += std::pow(static_cast<double>(value) - mean, 2.0);
    EXPECT_EQ(scales[i], round_to_f16(scales[i]));
    EXPECT_TRUE(near(scales[i], std::sqrt(squares / (kCols - 1)), {.rel = 0x1p-11})) << "float16 rounds to 2^-11";
  }
}

TEST(RowScales, AreTheLargestMagnitude) {
  const Matrix<float> w = lopsided_rows(2);
  const auto scales = row_scales(w, RowScale::kAbsmax);
  for (std::size_t i = 0; i < kRows; ++i) {
    float largest = 0.0f;
    for (const float value : w.row(i)) largest = std::max(largest, std::abs(value));
    EXPECT_EQ(scales[i], round_to_f16(largest));
  }
}

TEST(RowScales, OfRowsThatDoNotVaryAreSafe) {
  Matrix<float> w(5, 6);
  for (std::size_t j = 0; j < 6; ++j) {
    w(1, j) = -0.25f;                                 // constant
    w(2, j) = 0.5f + (j % 2 == 0 ? 0x1p-20f : 0.0f);  // nearly
    w(3, j) = j == 0 ? 1e-8f : 0.0f;                  // below float16
    w(4, j) = j % 2 == 0 ? 1.0f : -1.0f;              // not at all constant
  }
  const auto scales = row_scales(w, RowScale::kStd);
  EXPECT_EQ(scales[0], 0.0f);
  EXPECT_EQ(scales[1], 0.25f);
  EXPECT_EQ(scales[2], 0.5f);
  EXPECT_EQ(scales[3], 0x1p-24f);
  EXPECT_EQ(scales[4], round_to_f16(std::sqrt(1.2f)));
  const Matrix<float> column(3, 1);
  EXPECT_EQ(row_scales(column, RowScale::kStd), std::vector<float>(3, 0.0f));
}

TEST(RowScales, NameTheRowThatCannotBeScaled) {
  Matrix<float> w = lopsided_rows(3);
  w(7, 2) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(throws_with<NumericalError>([&] { (void)row_scales(w, RowScale::kStd); }, "row 7"));
  w(7, 2) = 1e6f;
  EXPECT_TRUE(throws_with<NumericalError>([&] { (void)row_scales(w, RowScale::kAbsmax); }, "row 7", "float16"));
}

TEST(Flipping, FollowsThePublishedRule) {
  const Matrix<float> w = lopsided_rows(4), weights = positive_weights(5);
  const auto down = rows_leaning_down(w, weights, 8);
  std::size_t flipped = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    const Palette palette = fit_palette(w.row(i), weights.row(i), {.centroids = 8});
    EXPECT_EQ(down[i], std::abs(palette.centroids.front()) > palette.centroids.back()) << "row " << i;
    flipped += down[i] ? 1u : 0u;
  }
  EXPECT_GT(flipped, 0u);
  EXPECT_LT(flipped, kRows);
  const auto p = scaled(w, weights, {.palette = {.bits = 3}, .sign = ScaleSign::kFlip});
  for (std::size_t i = 0; i < kRows; ++i) EXPECT_EQ(p.scales[i] < 0.0f, down[i]);
}

TEST(LeastSquaresScale, MinimisesTheWeightedError) {
  const Matrix<float> w = lopsided_rows(6), weights = positive_weights(7), values = lopsided_rows(8);
  for (std::size_t i = 0; i < kRows; ++i) {
    const float best = least_squares_scale(w.row(i), weights.row(i), values.row(i), 1.0f);
    const auto error = [&](float scale) {
      double sum = 0.0;
      for (std::size_t j = 0; j < kCols; ++j)
        sum +=
            static_cast<double>(weights(i, j)) *
            std::pow(static_cast<double>(w(i, j)) - static_cast<double>(scale) * static_cast<double>(values(i, j)), 2);
      return sum;
    };
    // The parabola's minimum, off by half a float16 step at most: a whole step away is never better.
    EXPECT_LE(error(best), error(best * (1.0f + 0x1p-10f)));
    EXPECT_LE(error(best), error(best * (1.0f - 0x1p-10f)));
  }
  const std::vector<float> zeros(kCols);
  EXPECT_EQ(least_squares_scale(w.row(0), {}, zeros, 0.5f), 0.5f) << "nothing to go by";
  EXPECT_EQ(least_squares_scale(zeros, {}, w.row(0), 0.5f), 0.5f) << "a scale of 0 would end the row";
}

TEST(PalettizeScaled, FitsTheDividedWeight) {
  const Matrix<float> w = lopsided_rows(9), weights = positive_weights(10);
  const auto scales = row_scales(w, RowScale::kStd);
  for (const bool objective : {false, true}) {
    Matrix<float> x(kRows, kCols), f(kRows, kCols);
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kCols; ++j) {
        x(i, j) = w(i, j) / scales[i];
        f(i, j) = objective ? weights(i, j) * (scales[i] * scales[i]) : weights(i, j);
      }
    const Palettization expected = palettize(x, f, {.bits = 3, .group_rows = 8});
    const auto p = scaled(w, weights, {.palette = {.bits = 3, .group_rows = 8}, .objective = objective});
    EXPECT_TRUE(same_bits(p.scales, scales));
    EXPECT_TRUE(same_bits(p.palettes.values(), expected.palettes.values()));
    EXPECT_TRUE(std::equal(p.codes.values().begin(), p.codes.values().end(), expected.codes.values().begin()));
    EXPECT_TRUE(near(p.cost, cost_of(w, weights, p, 8), {.rel = 1e-12})) << "the same terms in another order";
    if (objective) {
      EXPECT_TRUE(near(p.cost, expected.cost, {.rel = 1e-4})) << "apart by the rounding of w / s in float";
    }
  }
}

TEST(PalettizeScaled, TheObjectiveLosesLessThanThePublishedWeights) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Matrix<float> w = lopsided_rows(seed), weights = positive_weights(seed + 100);
    const PalettizeOptions palette{.bits = 3, .palette_dtype = DType::kF32};
    EXPECT_LE(scaled(w, weights, {.palette = palette, .objective = true}).cost,
              scaled(w, weights, {.palette = palette, .objective = false}).cost);
  }
}

TEST(PalettizeScaled, SearchedSignsAreNoWorseThanPlainOnes) {
  double gain = 0.0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Matrix<float> w = lopsided_rows(seed), weights = positive_weights(seed + 100);
    for (const std::size_t group : {0u, 6u}) {
      const PalettizeOptions palette{.bits = 2, .group_rows = group, .palette_dtype = DType::kF32};
      const double plain = scaled(w, weights, {.palette = palette}).cost;
      const double searched = scaled(w, weights, {.palette = palette, .sign = ScaleSign::kSearch}).cost;
      EXPECT_LE(searched, plain * (1.0 + 1e-5)) << "apart by the rounding of w / s in float";
      gain += 1.0 - searched / plain;
    }
  }
  EXPECT_GT(gain, 0.0);
}

// Why recipes refuse both there: a sign mirrors the row's palette, and its scale weighs all of its values alike.
// Entries may round to the next float16.
TEST(PalettizeScaled, SignsAndWeightsBesideOtherRowsChangeNothingOfARowWithAPaletteOfItsOwn) {
  const Matrix<float> w = lopsided_rows(11), weights = positive_weights(12);
  for (const DType dtype : {DType::kF16, DType::kF32, DType::kI8}) {
    for (const std::size_t rounds : {0u, 3u}) {
      ScaledPaletteOptions options{.palette = {.bits = 3, .group_rows = 1, .palette_dtype = dtype},
                                   .joint_iterations = rounds};
      const ScaledPalettization plain = scaled(w, weights, options);
      for (const ScaleSign sign : {ScaleSign::kPlain, ScaleSign::kFlip, ScaleSign::kSearch}) {
        for (const bool objective : {true, false}) {
          options.sign = sign;
          options.objective = objective;
          const ScaledPalettization other = scaled(w, weights, options);
          for (std::size_t i = 0; i < kRows; ++i)
            for (std::size_t j = 0; j < kCols; ++j)
              ASSERT_TRUE(near(other.scales[i] * other.palettes(i, other.codes(i, j)),
                               plain.scales[i] * plain.palettes(i, plain.codes(i, j)), {.rel = 0x1p-10}))
                  << "row " << i << ", input " << j;
        }
      }
    }
  }
}

TEST(PalettizeScaled, JointRoundsNeverRaiseTheCost) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Matrix<float> w = lopsided_rows(seed), weights = seed % 2 == 0 ? positive_weights(seed) : Matrix<float>();
    for (const unsigned bits : {1u, 2u, 4u})
      for (const DType dtype : {DType::kF16, DType::kF32})
        for (const std::size_t group : {0u, 1u, 5u}) {
          const PalettizeOptions palette{.bits = bits, .group_rows = group, .palette_dtype = dtype};
          const auto p = scaled(w, weights, {.palette = palette, .objective = seed % 3 != 0, .joint_iterations = 6});
          ASSERT_GE(p.history.size(), 2u);
          EXPECT_TRUE(std::is_sorted(p.history.rbegin(), p.history.rend()));
          EXPECT_EQ(p.history.back(), p.cost);
          EXPECT_TRUE(near(p.cost, cost_of(w, weights, p, group), {.rel = 1e-12}));
          if (bits < 4 && group != 1) {
            EXPECT_LT(p.cost, p.history.front()) << "std is not the best scale here";
          }
        }
  }
}

TEST(PalettizeScaled, RefittedScalesAreNoWorse) {
  const Matrix<float> w = lopsided_rows(11), weights = positive_weights(12);
  const PalettizeOptions palette{.bits = 2};
  const auto before = scaled(w, weights, {.palette = palette});
  const auto after = scaled(w, weights, {.palette = palette, .refit_scales = true});
  EXPECT_LT(after.cost, before.cost);
  EXPECT_TRUE(same_bits(after.palettes.values(), before.palettes.values()));
  EXPECT_TRUE(near(after.cost, cost_of(w, weights, after, 0), {.rel = 1e-12}));
  for (const float scale : after.scales) EXPECT_EQ(scale, round_to_f16(scale));
}

TEST(PalettizeScaled, SurvivesDegenerateRows) {
  Matrix<float> w = lopsided_rows(13);
  for (std::size_t j = 0; j < kCols; ++j) w(0, j) = 0.0f, w(1, j) = 0.75f, w(2, j) = j == 3 ? 1e-9f : 0.0f;
  w(3, 0) = 500.0f;  // a huge outlier
  Matrix<float> weights = positive_weights(14);
  for (float& value : weights.row(4)) value = 0.0f;
  for (const auto sign : {ScaleSign::kPlain, ScaleSign::kFlip, ScaleSign::kSearch}) {
    const auto p = scaled(w, weights, {.palette = {.bits = 4}, .sign = sign, .joint_iterations = 3});
    EXPECT_EQ(p.scales[0], 0.0f);
    for (std::size_t i = 0; i < kRows; ++i) EXPECT_TRUE(std::isfinite(p.scales[i]));
    for (const float entry : p.palettes.values()) EXPECT_TRUE(std::isfinite(entry));
    EXPECT_TRUE(std::isfinite(p.cost));
  }
  const Matrix<float> zeros(3, 5), one_row = lopsided_rows(15);
  const auto all_zero = scaled(zeros, {}, {.palette = {.bits = 2}, .sign = ScaleSign::kFlip, .joint_iterations = 2});
  EXPECT_EQ(all_zero.cost, 0.0);
  EXPECT_NO_THROW(
      (void)palettize_scaled(one_row.view().rows_slice(0, 1), {}, {.palette = {}, .sign = ScaleSign::kSearch}));
  EXPECT_NO_THROW((void)palettize_scaled(one_row.view().cols_slice(0, 1), {}, {.palette = {}, .joint_iterations = 2}));
}

TEST(PalettizeScaled, DoesNotDependOnThreads) {
  const Matrix<float> w = lopsided_rows(16), weights = positive_weights(17);
  const ScaledPaletteOptions options{
      .palette = {.bits = 3, .group_rows = 7}, .sign = ScaleSign::kSearch, .joint_iterations = 4};
  const auto expected = scaled(w, weights, options);
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    const auto p = scaled(w, weights, options);
    EXPECT_TRUE(same_bits(p.scales, expected.scales));
    EXPECT_TRUE(same_bits(p.palettes.values(), expected.palettes.values()));
    EXPECT_EQ(p.cost, expected.cost);
  }
  set_thread_count(0);
}

TEST(KmeansWeights, AreFlooredRelativeToTheLargest) {
  Matrix<double> fisher(2, 3);
  fisher(0, 0) = 4e-30, fisher(1, 2) = 1e-30, fisher(0, 1) = 1e-300;
  const auto weights = kmeans_weights(fisher);
  EXPECT_EQ(weights(0, 0), 1.0f);
  EXPECT_EQ(weights(1, 2), 0.25f);
  EXPECT_EQ(weights(0, 1), static_cast<float>(kSensitivityFloor));
  EXPECT_EQ(weights(1, 0), static_cast<float>(kSensitivityFloor));
  const auto ones = kmeans_weights(Matrix<double>(2, 2));
  for (const float weight : ones.values()) EXPECT_EQ(weight, 1.0f);
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    fisher(1, 1) = bad;
    EXPECT_TRUE(throws_with<NumericalError>([&] { (void)kmeans_weights(fisher); }, "row 1, column 1"));
  }
}

}  // namespace
}  // namespace nibble::quant
