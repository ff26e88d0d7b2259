#include "quant/algo/windows/windowed_palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/hessian.h"
#include "quant/algo/solve/refine_palettes.h"
#include "quant/format/windowed_codes.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/quant/algo/windows/window_error.h"
#include "tests/support/compare.h"
#include "tests/support/sanitizers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::near;
using nibble::test::throws_with;

double value_at(const WindowedWeight& weight, std::size_t i, std::size_t j) {
  return (weight.scales.empty() ? 1.0 : static_cast<double>(weight.scales[i])) *
         static_cast<double>(weight.palettes(0, weight.codes(i, j)));
}

double plain_cost(const Matrix<float>& w, const Matrix<float>& weights, const WindowedWeight& weight) {
  double cost = 0.0;
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); ++j) {
      const double error = static_cast<double>(w(i, j)) - value_at(weight, i, j);
      cost += (weights.size() == 0 ? 1.0 : static_cast<double>(weights(i, j))) * error * error;
    }
  return cost;
}

double plain_loss(const Matrix<float>& w, const Matrix<float>& h, const WindowedWeight& weight) {
  Matrix<double> delta(w.rows(), w.cols());
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); ++j) delta(i, j) = static_cast<double>(w(i, j)) - value_at(weight, i, j);
  return plain_error(delta, h);
}

bool are_streams(const WindowedWeight& weight, unsigned window_bits) {
  const WindowedLayout layout{weight.codes.rows(), 1, weight.window_step, window_bits};
  for (std::size_t i = 1; i < weight.codes.rows(); ++i)
    for (std::size_t j = 0; j < weight.codes.cols(); ++j)
      if (!windows_overlap(layout, weight.codes(i - 1, j), weight.codes(i, j))) return false;
  return true;
}

// On values that the palette was not fitted to. From above: what plain k-means from several starts reached in another
// implementation; from below: the distortion-rate bound 2^(-2 bits). docs/results/windowed.md has what it is.
TEST(WindowedPalette, OfGaussianValuesIsAsGoodAsTheTrellisAllows) {
  struct Case {
    unsigned bits, window_bits;
    double most;
  };
  std::vector<Case> cases{{2, 6, 0.086}, {2, 8, 0.082}, {3, 6, 0.027}, {3, 8, 0.0218}};
  if (nibble::test::kAddressSanitizer) cases.resize(1);  // 256 states take a minute there
  for (const Case& c : cases) {
    const auto fit =
        palettize_windows(random_weights(512, 192, 3, 1.0), {}, {.bits = c.bits, .window_bits = c.window_bits});
    const Matrix<float> fresh = random_weights(512, 64, 4, 1.0);
    const double error = window_error(fit.weight.palettes.row(0), c.bits, fresh);
    EXPECT_LT(error, c.most) << c.bits << " of " << c.window_bits;
    EXPECT_GT(error, c.bits == 2 ? 0.0625 : 0.0156) << c.bits << " of " << c.window_bits;
  }
}

TEST(WindowedPalette, CostsWhatItSaysAndJointRoundsNeverRaiseIt) {
  Matrix<float> w = random_weights(70, 40, 1), weights(70, 40);
  Random random(2);
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (float& value : w.row(i)) value *= 0.2f + static_cast<float>(i % 5);
  for (float& value : weights.values()) value = static_cast<float>(random.uniform() * random.uniform());
  for (const bool weighted : {false, true}) {
    const auto fit = palettize_windows(w, weighted ? weights.view() : MatrixView<float>(),
                                       {.bits = 2, .window_bits = 5, .scale = RowScale::kStd, .joint_iterations = 6});
    ASSERT_TRUE(are_streams(fit.weight, 5));
    const double cost = plain_cost(w, weighted ? weights : Matrix<float>(), fit.weight);
    EXPECT_TRUE(near(fit.cost, cost, {.rel = 1e-6}));  // roots of weights in float
    ASSERT_GE(fit.history.size(), 2u);
    for (std::size_t n = 1; n < fit.history.size(); ++n) EXPECT_LE(fit.history[n], fit.history[n - 1]);
    EXPECT_LT(fit.history.back(), fit.history.front());
  }
}

TEST(WindowedPalette, IsBetterThanAScalarOne) {
  const Matrix<float> w = random_weights(96, 64, 5);
  const double scalar = palettize(w, {}, {.bits = 2}).cost;
  EXPECT_LT(palettize_windows(w, {}, {.bits = 2, .window_bits = 6}).cost, 0.85 * scalar);
}

// Of 140,000 rows one input whole would be the sample, and three the larger one, 0, 5 and 10: a palette of these, which
// are small, fits no other.
TEST(WindowedPalette, OfManyRowsIsFittedToInputsOfAllSizes) {
  constexpr std::size_t kRows = 140'000, kFew = 4000, kInputs = 16;
  Random random(3);
  Matrix<float> w(kRows, kInputs);
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kInputs; ++j) w(i, j) = static_cast<float>(random.normal() * (j % 5 == 0 ? 1.0 : 4.0));
  const WindowedPaletteOptions options{.bits = 2, .window_bits = 4, .scale = RowScale::kStd};
  const auto few_rows = w.view().rows_slice(0, kFew);
  const double few = palettize_windows(few_rows, {}, options).cost / kFew,
               many = palettize_windows(w, {}, options).cost / kRows;
  EXPECT_LT(many, 1.02 * few);
}

TEST(WindowedPalette, HoldsOddShapesAndConstants) {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {1, 9}, {2, 1}, {13, 3}}) {
    const Matrix<float> w = random_weights(rows, cols, 6);
    for (const unsigned bits : {1u, 3u, 4u}) {
      const auto fit = palettize_windows(w, {}, {.bits = bits, .window_bits = 7, .scale = RowScale::kAbsmax});
      EXPECT_TRUE(are_streams(fit.weight, 7));
    }
  }
  const auto zeros = palettize_windows(Matrix<float>(9, 4), {}, {.scale = RowScale::kStd});
  EXPECT_EQ(zeros.cost, 0.0);
}

TEST(WindowedPalette, DoesNotDependOnTheNumberOfThreads) {
  const Matrix<float> w = random_weights(60, 50, 7);
  std::vector<std::vector<std::uint16_t>> codes;
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    const auto fit = palettize_windows(w, {}, {.scale = RowScale::kStd, .joint_iterations = 2});
    codes.emplace_back(fit.weight.codes.values().begin(), fit.weight.codes.values().end());
  }
  set_thread_count(0);
  EXPECT_EQ(codes[0], codes[1]);
}

TEST(WindowedPalette, RefusesWhatDoesNotFit) {
  const Matrix<float> w(4, 4), weights(4, 3);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)palettize_windows(w, weights, {}); }, "(4, 4)", "(4, 3)"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)palettize_windows(w, {}, {.bits = 5}); }, "go on by 5"));
}

// Error feedback and descent under a Hessian, with whole columns.
class WindowedSolving : public testing::Test {
 protected:
  WindowedSolving()
      : w_(random_weights(150, 40, 8)),  // more rows than a tile
        h_(random_hessian(40, 120, 8)),
        fit_(palettize_windows(w_, {}, {.bits = 2, .window_bits = 6, .scale = RowScale::kStd}).weight) {}

  Matrix<float> w_, h_;
  WindowedWeight fit_;
};

TEST_F(WindowedSolving, FeedbackIsWhatTheRecursionSays) {
  const HessianFactor factor = factor_hessian<float>(h_.view(), {.act_order = true});
  WindowRounding rounding(fit_.palettes.row(0), 2, w_.rows(), fit_.scales);
  const auto result = round_with_feedback(w_, factor, rounding);
  Matrix<float> running = w_;
  std::vector<float> column(w_.rows()), decoded(w_.rows());
  std::vector<std::uint16_t> codes(w_.rows());
  for (std::size_t p = 0; p < w_.cols(); ++p) {
    const std::size_t j = factor.order[p];
    for (std::size_t i = 0; i < w_.rows(); ++i) column[i] = running(i, j);
    rounding.round(j, 0, column, codes.data(), decoded.data());
    for (std::size_t i = 0; i < w_.rows(); ++i) {
      ASSERT_EQ(result.codes(i, j), codes[i]) << i << ", " << j;
      const float error = (column[i] - decoded[i]) * (1.0f / factor.upper(p, p));
      for (std::size_t q = p + 1; q < w_.cols(); ++q) running(i, factor.order[q]) -= factor.upper(p, q) * error;
    }
  }
  WindowedWeight nearest = fit_, fed = fit_;
  fed.codes = result.codes;
  EXPECT_TRUE(are_streams(fed, 6));
  EXPECT_LT(plain_loss(w_, h_, fed), 0.9 * plain_loss(w_, h_, nearest));
}

TEST_F(WindowedSolving, NoSweepOfDescentRaisesTheLoss) {
  const WindowRounding rounding(fit_.palettes.row(0), 2, w_.rows(), fit_.scales);
  double before = plain_loss(w_, h_, fit_);
  for (int sweep = 0; sweep < 4; ++sweep) {
    const auto result = coordinate_descent(w_, h_, rounding, 1, fit_.codes);
    const double after = plain_loss(w_, h_, fit_);
    EXPECT_TRUE(are_streams(fit_, 6));
    EXPECT_LE(after, before * (1.0 + 1e-5));  // products in float
    EXPECT_TRUE(near(result.loss, after, {.rel = 1e-4}));
    before = after;
  }
}

TEST_F(WindowedSolving, ThePaletteUnderAHessianHasNoSlopeLeft) {
  update_palettes(w_, h_, DType::kF32, fit_);
  const double best = plain_loss(w_, h_, fit_);
  for (std::size_t q = 0; q < fit_.palettes.size(); ++q) {
    const float entry = fit_.palettes.data()[q];
    for (const float step : {-0.02f, 0.02f}) {
      fit_.palettes.data()[q] = entry + step;
      EXPECT_GE(plain_loss(w_, h_, fit_), best * (1.0 - 1e-6)) << q;
    }
    fit_.palettes.data()[q] = entry;
  }
}

TEST_F(WindowedSolving, RoundsKeepTheBestThatTheySaw) {
  const HessianFactor factor = factor_hessian<float>(h_.view(), {});
  for (const bool feedback : {false, true}) {
    WindowedWeight weight = fit_;
    const double before = plain_loss(w_, h_, weight);
    const auto losses =
        refine_palettes(w_, h_, feedback ? &factor : nullptr, {.iterations = 3, .sweeps = 2, .scales = true}, weight);
    const double after = plain_loss(w_, h_, weight);
    EXPECT_TRUE(are_streams(weight, 6));
    EXPECT_TRUE(near(after, *std::min_element(losses.begin(), losses.end()), {.rel = 1e-4}));
    EXPECT_LT(after, 0.9 * before);
  }
}

TEST_F(WindowedSolving, AColumnIsRoundedWhole) {
  const WindowRounding rounding(fit_.palettes.row(0), 2, w_.rows(), fit_.scales);
  std::vector<float> values(10), decoded(10);
  std::vector<std::uint16_t> codes(10);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { rounding.round(0, 5, values, codes.data(), decoded.data()); },
                                           "rows [5, 15) of 150"));
}

}  // namespace
}  // namespace nibble::quant
