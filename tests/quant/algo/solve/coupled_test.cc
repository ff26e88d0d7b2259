#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/palettes/outliers.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/rounding/coupled_column.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/coupled_descent.h"
#include "quant/algo/solve/coupled_feedback.h"
#include "quant/algo/solve/coupled_fit.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/refine_palettes.h"
#include "quant/algo/windows/window_rounding.h"
#include "quant/algo/windows/windowed_palette.h"
#include "quant/format/windowed_codes.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

// Codes under tr(H_O Δ H_I Δᵀ): coupled_column.h, coupled_descent.h, coupled_feedback.h, coupled_fit.h, and what
// codebook_update.h and refine_palettes.h do with an H_O.
namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::near;
using nibble::test::throws_with;

/// tr(H_O Δ H_I Δᵀ) in plain loops.
double plain_coupled_error(const Matrix<double>& delta, const Matrix<float>& h_in, const Matrix<float>& h_out) {
  Matrix<double> product(delta.rows(), delta.cols());  // Δ H_I
  for (std::size_t r = 0; r < delta.rows(); ++r)
    for (std::size_t i = 0; i < delta.cols(); ++i)
      for (std::size_t j = 0; j < delta.cols(); ++j) product(r, j) += delta(r, i) * static_cast<double>(h_in(i, j));
  double sum = 0.0;
  for (std::size_t r = 0; r < delta.rows(); ++r)
    for (std::size_t s = 0; s < delta.rows(); ++s)
      for (std::size_t j = 0; j < delta.cols(); ++j)
        sum += static_cast<double>(h_out(r, s)) * product(r, j) * delta(s, j);
  return sum;
}

template <class Code>
double value_at(const BasicPaletteWeight<Code>& weight, std::size_t i, std::size_t j) {
  const std::size_t group = weight.group_rows == 0 ? 0 : i / weight.group_rows;
  return (weight.scales.empty() ? 1.0 : static_cast<double>(weight.scales[i])) *
         static_cast<double>(weight.palettes(group, weight.codes(i, j)));
}

// A weight of 40 outputs, more than one block of them, and 30 inputs.
class Coupled : public testing::Test {
 protected:
  /// Three blocks of inputs instead.
  void take_300_inputs() {
    w_ = random_weights(40, 300, 5);
    h_in_ = random_hessian(300, 900, 6);
  }

  /// What is stored less w.
  template <class Code>
  Matrix<double> errors_of(const BasicPaletteWeight<Code>& weight) const {
    Matrix<double> delta(w_.rows(), w_.cols());
    for (std::size_t i = 0; i < w_.rows(); ++i)
      for (std::size_t j = 0; j < w_.cols(); ++j) delta(i, j) = value_at(weight, i, j) - static_cast<double>(w_(i, j));
    const Outliers& places = weight.sparse.places;
    for (std::size_t i = 0; i + 1 < places.rows.size(); ++i)
      for (auto at = static_cast<std::size_t>(places.rows[i]); at < static_cast<std::size_t>(places.rows[i + 1]);
           ++at) {
        const auto j = static_cast<std::size_t>(places.columns[at]);
        delta(i, j) = static_cast<double>(weight.sparse.values[at]) - static_cast<double>(w_(i, j));
      }
    return delta;
  }
  template <class Code>
  double loss_of(const BasicPaletteWeight<Code>& weight) const {
    return plain_coupled_error(errors_of(weight), h_in_, h_out_);
  }

  /// Whether slopes (in, out) are H_I Δᵀ H_O but for `share` of the largest.
  testing::AssertionResult slopes_near(const Matrix<float>& slopes, const Matrix<double>& delta, double share) const {
    const std::size_t m = w_.rows(), n = w_.cols();
    Matrix<double> product(m, n), expected(n, m);
    for (std::size_t r = 0; r < m; ++r)
      for (std::size_t c = 0; c < n; ++c)
        for (std::size_t j = 0; j < n; ++j) product(r, j) += delta(r, c) * static_cast<double>(h_in_(c, j));
    double largest = 0.0;
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t r = 0; r < m; ++r) expected(j, i) += static_cast<double>(h_out_(i, r)) * product(r, j);
        largest = std::max(largest, std::abs(expected(j, i)));
      }
    if (slopes.rows() != n || slopes.cols() != m) return testing::AssertionFailure() << "other shapes";
    for (std::size_t i = 0; i < slopes.size(); ++i)
      if (const auto is_near = near(slopes.data()[i], expected.data()[i], {.abs = share * largest}); !is_near)
        return testing::AssertionFailure() << "slope " << i << ": " << is_near.message();
    return testing::AssertionSuccess();
  }

  PaletteWeight scalar(unsigned bits, std::size_t group_rows = 0) const {
    Palettization nearest = palettize(w_, {}, {.bits = bits, .group_rows = group_rows});
    return {.palettes = std::move(nearest.palettes),
            .group_rows = group_rows,
            .scales = {},
            .codes = std::move(nearest.codes)};
  }
  WindowedWeight windowed(unsigned bits, unsigned window_bits) const {
    return palettize_windows(w_, {}, {.bits = bits, .window_bits = window_bits, .scale = RowScale::kStd, .rounds = 20})
        .weight;
  }

  Matrix<float> w_ = random_weights(40, 30, 1), h_in_ = random_hessian(30, 90, 2), h_out_ = random_hessian(40, 120, 3);
};

using CoupledError = Coupled;

TEST_F(CoupledError, IsThatOfPlainLoops) {
  Matrix<double> exact(w_.rows(), w_.cols());
  std::copy(w_.values().begin(), w_.values().end(), exact.data());
  EXPECT_TRUE(near(coupled_error(w_, h_in_, h_out_), plain_coupled_error(exact, h_in_, h_out_), {.rel = 1e-5}));
  EXPECT_TRUE(near(coupled_error(w_, h_in_, identity(40)), plain_error(exact, h_in_), {.rel = 1e-5}));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)coupled_error(w_, h_out_, h_in_); }, "(40, 30)", "(30, 30)"));
}

using CoupledColumnTest = Coupled;

TEST_F(CoupledColumnTest, KnowsTheLossOfEveryMove) {
  Matrix<double> delta(w_.rows(), w_.cols());
  std::copy(w_.values().begin(), w_.values().end(), delta.data());
  const std::size_t j = 7;
  std::vector<float> slope(w_.rows());
  for (std::size_t i = 0; i < w_.rows(); ++i) {
    double sum = 0.0;
    for (std::size_t r = 0; r < w_.rows(); ++r)
      for (std::size_t c = 0; c < w_.cols(); ++c)
        sum += static_cast<double>(h_out_(i, r)) * delta(r, c) * static_cast<double>(h_in_(c, j));
    slope[i] = static_cast<float>(sum);
  }
  CoupledColumn column(h_out_, h_in_(j, j), slope);
  const double before = plain_coupled_error(delta, h_in_, h_out_);
  for (const auto& [row, change] : {std::pair{3u, 0.25f}, {4u, -0.5f}, {3u, 0.125f}, {39u, 1.0f}}) {
    column.move(row, change);
    delta(row, j) += static_cast<double>(change);
    const double fell = before - plain_coupled_error(delta, h_in_, h_out_);
    EXPECT_TRUE(near(column.gain(), fell, {.rel = 1e-4}));  // slopes are kept in float
  }
}

using CoupledDescent = Coupled;

TEST_F(CoupledDescent, NoSweepRaisesTheLossAndTheEndIsBestCodeByCode) {
  PaletteWeight weight = scalar(2);
  const PaletteRounding rounding(weight.palettes, 0, {});
  const double start = loss_of(weight);
  double before = start;
  for (int sweep = 0; sweep < 40; ++sweep) {
    const DescentResult result = coupled_descent(w_, h_in_, h_out_, rounding, 1, weight.codes);
    const double after = loss_of(weight);
    EXPECT_LE(after, before * (1.0 + 1e-5));
    EXPECT_TRUE(near(result.loss_before, before, {.rel = 1e-4}));
    EXPECT_TRUE(near(result.loss, after, {.rel = 1e-4}));
    before = after;
  }
  EXPECT_LT(before, 0.5 * start);
  for (std::size_t i = 0; i < w_.rows(); i += 3)
    for (std::size_t j = 0; j < w_.cols(); ++j) {
      const std::uint8_t code = weight.codes(i, j);
      for (std::uint8_t other = 0; other < 4; ++other) {
        weight.codes(i, j) = other;
        EXPECT_GE(loss_of(weight), before * (1.0 - 1e-6)) << i << ", " << j;
      }
      weight.codes(i, j) = code;
    }
}

TEST_F(CoupledDescent, KeepsTheSlopesOfAllBlocksOfInputsUpToDate) {
  take_300_inputs();
  PaletteWeight weight = scalar(2);
  const PaletteRounding rounding(weight.palettes, 0, {});
  const double start = loss_of(weight);
  const CoupledDescentResult result = coupled_descent(w_, h_in_, h_out_, rounding, 4, weight.codes);
  EXPECT_EQ(result.sweeps, 4u);
  EXPECT_LT(result.loss, 0.8 * start);
  EXPECT_TRUE(near(result.loss, loss_of(weight), {.rel = 1e-4}));
  // 12,000 products to a slope, and as many of changes: rounding in float walks some 1e-5 of the largest away.
  EXPECT_TRUE(slopes_near(result.slopes, errors_of(weight), 1e-4));
}

TEST_F(CoupledDescent, OfOutputsThatAreNotCoupledIsCoordinateDescent) {
  PaletteWeight mine = scalar(3, 4), plain = mine;
  const PaletteRounding rounding(mine.palettes, 4, {});
  coupled_descent(w_, h_in_, identity(40), rounding, 3, mine.codes);
  coordinate_descent(w_, h_in_, rounding, 3, plain.codes);
  std::size_t differ = 0;
  for (std::size_t i = 0; i < mine.codes.size(); ++i) differ += mine.codes.data()[i] != plain.codes.data()[i];
  EXPECT_LE(differ, mine.codes.size() / 100);  // slopes are summed in another order: near ties fall either way
}

TEST_F(CoupledDescent, EndsWhereASweepGainsLittleAndLeavesWhatSaysNothing) {
  PaletteWeight weight = scalar(2);
  const PaletteRounding rounding(weight.palettes, 0, {});
  PaletteWeight settled = weight;
  EXPECT_LT(coupled_descent(w_, h_in_, h_out_, rounding, 40, settled.codes, 1e-2).sweeps, 40u);
  for (std::size_t i = 0; i < 40; ++i) h_out_(i, 5) = h_out_(5, i) = 0.0f;
  for (std::size_t j = 0; j < 30; ++j) h_in_(j, 6) = h_in_(6, j) = 0.0f;
  PaletteWeight silent = weight;
  coupled_descent(w_, h_in_, h_out_, rounding, 4, silent.codes);
  for (std::size_t j = 0; j < 30; ++j) EXPECT_EQ(silent.codes(5, j), weight.codes(5, j));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(silent.codes(i, 6), weight.codes(i, 6));
}

// Palettes move between sweeps: codes that no loss depends on have to follow them.
TEST_F(CoupledDescent, RoundsSilentInputsToNearest) {
  take_300_inputs();
  PaletteWeight weight = scalar(2);
  const Matrix<std::uint8_t> nearest = weight.codes;
  const PaletteRounding rounding(weight.palettes, 0, {});
  for (const std::size_t silent : {6u, 290u}) {
    for (std::size_t j = 0; j < 300; ++j) h_in_(j, silent) = h_in_(silent, j) = 0.0f;
    for (std::size_t i = 0; i < 40; ++i) weight.codes(i, silent) ^= 1u;
  }
  coupled_descent(w_, h_in_, h_out_, rounding, 1, weight.codes);
  for (const std::size_t silent : {6u, 290u})
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(weight.codes(i, silent), nearest(i, silent)) << i;
}

TEST_F(CoupledDescent, OfWindowsLowersTheLossAndKeepsStreams) {
  for (const auto& [bits, window_bits] : {std::pair{1u, 5u}, {2u, 6u}, {2u, 7u}, {3u, 8u}, {4u, 6u}}) {
    SCOPED_TRACE(testing::Message() << bits << " of " << window_bits << " bits");
    WindowedWeight weight = windowed(bits, window_bits);
    const WindowRounding rounding(weight.palettes.row(0), bits, w_.rows(), weight.scales);
    const double start = loss_of(weight);
    double before = start;
    for (int sweep = 0; sweep < 30; ++sweep) {
      coupled_descent(w_, h_in_, h_out_, rounding, 1, weight.codes);
      const double after = loss_of(weight);
      EXPECT_LE(after, before * (1.0 + 1e-5));
      before = after;
    }
    EXPECT_LT(before, 0.7 * start);
    for (std::size_t j = 0; j < w_.cols(); ++j)
      for (std::size_t i = 1; i < w_.rows(); ++i)
        ASSERT_TRUE(
            windows_overlap({w_.rows(), w_.cols(), bits, window_bits}, weight.codes(i - 1, j), weight.codes(i, j)));
  }
}

// Where outputs are not coupled, a piece is searched for exactly what counts: no other stream of its windows is better.
TEST_F(CoupledDescent, OfWindowsEndsWhereNoStreamOfAPieceIsBetter) {
  w_ = random_weights(6, 30, 4);
  h_out_ = identity(6);
  for (std::size_t i = 0; i < 6; ++i) h_out_(i, i) = 1.0f + static_cast<float>(i);
  const unsigned bits = 1, window_bits = 4;
  WindowedWeight weight = windowed(bits, window_bits);
  const WindowRounding rounding(weight.palettes.row(0), bits, 6, weight.scales);
  coupled_descent(w_, h_in_, h_out_, rounding, 100, weight.codes);
  const double best = loss_of(weight);
  for (std::size_t j = 0; j < w_.cols(); ++j) {
    std::vector<std::uint16_t> settled(6);
    for (std::size_t i = 0; i < 6; ++i) settled[i] = weight.codes(i, j);
    for (unsigned stream = 0; stream < 1u << 9; ++stream) {
      for (std::size_t i = 0; i < 6; ++i) weight.codes(i, j) = static_cast<std::uint16_t>(stream >> i & 15u);
      EXPECT_GE(loss_of(weight), best * (1.0 - 1e-6)) << "input " << j << ", stream " << stream;
    }
    for (std::size_t i = 0; i < 6; ++i) weight.codes(i, j) = settled[i];
  }
}

TEST_F(CoupledDescent, ThreadsDoNotChangeTheCodes) {
  take_300_inputs();
  std::vector<PaletteWeight> weights(2, scalar(2));
  for (const std::size_t run : {0u, 1u}) {
    set_thread_count(run == 0 ? 1 : 3);
    const PaletteRounding rounding(weights[run].palettes, 0, {});
    coupled_descent(w_, h_in_, h_out_, rounding, 3, weights[run].codes);
  }
  set_thread_count(0);
  EXPECT_TRUE(std::equal(weights[0].codes.values().begin(), weights[0].codes.values().end(),
                         weights[1].codes.values().begin()));
}

TEST_F(CoupledDescent, RefusesWhatIsNotFinite) {
  w_(1, 2) = std::nanf("");
  PaletteWeight weight{.palettes = Matrix<float>(1, 2), .scales = {}, .codes = Matrix<std::uint8_t>(40, 30)};
  const PaletteRounding rounding(weight.palettes, 0, {});
  EXPECT_TRUE(throws_with<NumericalError>([&] { coupled_descent(w_, h_in_, h_out_, rounding, 1, weight.codes); },
                                          "NaN or infinite"));
}

class CoupledFeedback : public Coupled {
 protected:
  HessianFactor inputs() const { return factor_hessian<float>(h_in_.view(), {}); }
  HessianFactor outputs(const Matrix<float>& h) const { return factor_hessian<float>(h.view(), {.act_order = false}); }
};

TEST_F(CoupledFeedback, OfOutputsThatAreNotCoupledIsErrorFeedback) {
  PaletteWeight weight = scalar(3);
  PaletteRounding rounding(weight.palettes, 0, {});
  const Matrix<std::uint8_t> mine = round_with_coupled_feedback(w_, inputs(), outputs(identity(40)), rounding);
  const Matrix<std::uint8_t> plain = round_with_feedback(w_, inputs(), rounding).codes;
  EXPECT_TRUE(std::equal(mine.values().begin(), mine.values().end(), plain.values().begin()));
}

// Rows one after the other, each error spread by the inverse of what is left of H_O, in double.
TEST_F(CoupledFeedback, SpreadsTheErrorOfABlockOverTheRowsBehindIt) {
  PaletteWeight weight = scalar(3);
  PaletteRounding rounding(weight.palettes, 0, {});
  // Blocks of 8 rows that are not coupled within, so that block by block is row by row.
  for (std::size_t i = 0; i < 40; ++i)
    for (std::size_t j = 0; j < 40; ++j)
      if (i != j && i / 8 == j / 8) h_out_(i, j) = 0.0f;
  for (std::size_t i = 0; i < 40; ++i) h_out_(i, i) *= 8.0f;  // positive definite whatever was taken out
  const HessianFactor out = factor_hessian<float>(h_out_.view(), {.damping = 0.0, .act_order = false});
  ASSERT_EQ(out.damping_share, 0.0);
  const Matrix<std::uint8_t> mine = round_with_coupled_feedback(w_, inputs(), out, rounding);
  // The rows behind a block minimise the loss for its error: δ = −H_ll⁻¹ H_lb e, here by Gauss-Seidel.
  Matrix<float> current = w_;
  for (std::size_t first = 0; first < 40; first += 8) {
    Matrix<float> block(8, 30);
    for (std::size_t r = 0; r < 8; ++r)
      std::copy(current.row(first + r).begin(), current.row(first + r).end(), block.row(r).begin());
    const Matrix<std::uint8_t> codes = round_with_feedback(block, inputs(), rounding).codes;
    std::size_t differ = 0;
    for (std::size_t r = 0; r < 8; ++r)
      for (std::size_t j = 0; j < 30; ++j) differ += mine(first + r, j) != codes(r, j);
    EXPECT_LE(differ, 4u) << first;  // near ties of values that went through another order of sums
    Matrix<double> errors(8, 30), response(40, 30);
    for (std::size_t r = 0; r < 8; ++r)
      for (std::size_t j = 0; j < 30; ++j)
        errors(r, j) =
            static_cast<double>(current(first + r, j)) - static_cast<double>(weight.palettes(0, mine(first + r, j)));
    for (int round = 0; round < 400; ++round)
      for (std::size_t i = first + 8; i < 40; ++i)
        for (std::size_t j = 0; j < 30; ++j) {
          double sum = 0.0;
          for (std::size_t r = 0; r < 8; ++r) sum += static_cast<double>(h_out_(i, first + r)) * errors(r, j);
          for (std::size_t k = first + 8; k < 40; ++k)
            if (k != i) sum += static_cast<double>(h_out_(i, k)) * response(k, j);
          response(i, j) = -sum / static_cast<double>(h_out_(i, i));
        }
    // Δ of a later row is response = w − (its new target), so the target moves by −response … and w − target =
    // response.
    for (std::size_t i = first + 8; i < 40; ++i)
      for (std::size_t j = 0; j < 30; ++j) current(i, j) -= static_cast<float>(response(i, j));
  }
}

TEST_F(CoupledFeedback, LosesLessThanFeedbackOfInputsAlone) {
  PaletteWeight mine = scalar(3), plain = mine;
  PaletteRounding rounding(mine.palettes, 0, {});
  mine.codes = round_with_coupled_feedback(w_, inputs(), outputs(h_out_), rounding);
  plain.codes = round_with_feedback(w_, inputs(), rounding).codes;
  EXPECT_LT(loss_of(mine), 0.9 * loss_of(plain));
}

TEST_F(CoupledFeedback, OfWindowsGivesStreamsThatLoseLess) {
  for (const auto& [bits, window_bits] : {std::pair{1u, 5u}, {2u, 6u}, {2u, 8u}, {3u, 8u}, {4u, 6u}}) {
    SCOPED_TRACE(testing::Message() << bits << " of " << window_bits << " bits");
    WindowedWeight mine = windowed(bits, window_bits), plain = mine;
    WindowRounding rounding(mine.palettes.row(0), bits, w_.rows(), mine.scales);
    mine.codes = round_with_coupled_feedback(w_, inputs(), outputs(h_out_), rounding);
    plain.codes = round_with_feedback(w_, inputs(), rounding).codes;
    for (std::size_t j = 0; j < w_.cols(); ++j)
      for (std::size_t i = 1; i < w_.rows(); ++i)
        ASSERT_TRUE(windows_overlap({w_.rows(), w_.cols(), bits, window_bits}, mine.codes(i - 1, j), mine.codes(i, j)));
    EXPECT_LT(loss_of(mine), 0.9 * loss_of(plain));
  }
}

TEST_F(CoupledFeedback, RefusesOutputsThatAreNotInOrder) {
  PaletteWeight weight = scalar(2);
  PaletteRounding rounding(weight.palettes, 0, {});
  const HessianFactor shuffled = factor_hessian<float>(h_out_.view(), {.act_order = true});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)round_with_coupled_feedback(w_, inputs(), shuffled, rounding); },
                                           "(40, 30)", "in order"));
}

using CoupledPalettes = Coupled;

TEST_F(CoupledPalettes, NoChangeOfAnyEntryLowersTheLoss) {
  for (const std::size_t group_rows : {0u, 8u}) {
    PaletteWeight weight = scalar(2, group_rows);
    const double before = loss_of(weight);
    update_palettes(w_, h_in_, DType::kF32, weight, h_out_);
    const double best = loss_of(weight);
    EXPECT_LT(best, before);
    for (float& entry : weight.palettes.values()) {
      const float stored = entry;
      for (const float step : {-5e-4f, 5e-4f}) {
        entry = stored + step;
        EXPECT_GT(loss_of(weight), best * (1.0 - 1e-7));
      }
      entry = stored;
    }
  }
}

TEST_F(CoupledPalettes, NoChangeOfAnyScaleLowersTheLossByMoreThanFloat16Allows) {
  PaletteWeight weight = scalar(2);
  const double before = loss_of(weight);
  update_scales(w_, h_in_, weight, h_out_);
  ASSERT_EQ(weight.scales.size(), 40u);
  const double best = loss_of(weight);
  EXPECT_LT(best, before);
  for (float& scale : weight.scales) {
    const float stored = scale;
    for (const float step : {-0.02f, 0.02f}) {  // twenty steps of float16 above 1: others are rounded too
      scale = stored + step;
      EXPECT_GT(loss_of(weight), best * (1.0 - 1e-6));
    }
    scale = stored;
  }
}

// Rows of zeros stay so, and the other scales are the best there are beside them: those of a problem without these
// rows.
TEST_F(CoupledPalettes, ScalesBesideRowsOfZerosAreFittedWithoutThem) {
  PaletteWeight weight = scalar(2);
  weight.scales.assign(40, 1.0f);
  const auto silence = [&](std::size_t i) {
    std::fill_n(w_.row(i).begin(), w_.cols(), 0.0f);
    weight.scales[i] = 0.0f;
  };
  for (const std::size_t i : {3u, 17u, 31u}) silence(i);
  PaletteWeight alone = weight;
  CoupledFit(w_, h_in_, h_out_).fit_scales(weight);
  for (const std::size_t i : {3u, 17u, 31u}) {
    EXPECT_EQ(weight.scales[i], 0.0f);
    for (std::size_t j = 0; j < 40; ++j) h_out_(i, j) = h_out_(j, i) = 0.0f;
  }
  CoupledFit(w_, h_in_, h_out_).fit_scales(alone);
  for (std::size_t i = 0; i < 40; ++i)  // a step of float16
    EXPECT_TRUE(near(weight.scales[i], alone.scales[i], {.rel = 0x1p-10})) << i;
}

// They come from products of the whole weight, not of its errors: float walks away by some 1e-6 of those, at 3 bits,
// where errors are a tenth of the weights, by some 1e-5 of the largest slope.
TEST_F(CoupledPalettes, ScalesAndSlopesFollowFromEntriesAlone) {
  take_300_inputs();
  for (const bool sparse : {false, true}) {
    SCOPED_TRACE(testing::Message() << "sparse: " << sparse);
    PaletteWeight weight = scalar(3, 8);
    if (sparse) weight.sparse = values_at(find_outliers(w_, {}, 0.0, 0.01), w_);
    CoupledFit fit(w_, h_in_, h_out_);
    Matrix<float> slopes = fit.slopes(weight, false);
    EXPECT_TRUE(slopes_near(slopes, errors_of(weight), 1e-4));
    EXPECT_TRUE(weight.scales.empty());
    const double before = loss_of(weight);
    slopes = fit.slopes(weight, true);
    EXPECT_TRUE(slopes_near(slopes, errors_of(weight), 1e-4));
    EXPECT_LT(loss_of(weight), before);
    PaletteWeight again = weight;
    update_scales(w_, h_in_, again, h_out_);
    for (std::size_t i = 0; i < weight.scales.size(); ++i)  // a step of float16
      EXPECT_TRUE(near(again.scales[i], weight.scales[i], {.rel = 0x1p-10}));
    if (!sparse) continue;
    for (float& value : weight.sparse.values) value += 0.25f;  // what is coded is another weight now
    slopes = fit.slopes(weight, true);
    EXPECT_TRUE(slopes_near(slopes, errors_of(weight), 1e-4));
  }
  WindowedWeight windows = windowed(2, 6);
  const Matrix<float> slopes = CoupledFit(w_, h_in_, h_out_).slopes(windows, true);
  EXPECT_TRUE(slopes_near(slopes, errors_of(windows), 1e-4));
}

TEST_F(CoupledPalettes, RoundsGainNearlyAllThatExactOnesWould) {
  take_300_inputs();
  for (const std::size_t group_rows : {0u, 8u}) {
    PaletteWeight weight = scalar(3, group_rows), exact = weight;
    const double before = loss_of(weight);
    update_palettes(w_, h_in_, DType::kF32, exact, h_out_);
    PaletteWeight updated = weight;
    const RefineHistory of_update = refine_palettes(
        w_, h_in_, nullptr, {.iterations = 1, .sweeps = 0, .palette_dtype = DType::kF32}, updated, h_out_);
    EXPECT_TRUE(near(of_update[0], before, {.rel = 1e-4}));
    EXPECT_LT(of_update[1], loss_of(exact) + 0.01 * (before - loss_of(exact)));
    const RefineHistory losses = refine_palettes(
        w_, h_in_, nullptr, {.iterations = 2, .sweeps = 2, .palette_dtype = DType::kF32}, weight, h_out_);
    EXPECT_LT(losses[1], of_update[1]);
    EXPECT_LE(losses[2], losses[1] * (1.0 + 1e-5));  // an update from the slopes that the descent left
    EXPECT_LE(losses[3], losses[2] * (1.0 + 1e-5));
    EXPECT_TRUE(near(loss_of(weight), *std::min_element(losses.begin(), losses.end()), {.rel = 1e-4}));
  }
}

TEST_F(CoupledPalettes, RoundsKeepTheBestThatTheySaw) {
  PaletteWeight weight = scalar(2);
  const double before = loss_of(weight);
  const RefineHistory losses =
      refine_palettes(w_, h_in_, nullptr, {.iterations = 3, .sweeps = 2, .scales = true}, weight, h_out_);
  EXPECT_TRUE(near(loss_of(weight), *std::min_element(losses.begin(), losses.end()), {.rel = 1e-4}));
  EXPECT_LT(loss_of(weight), 0.5 * before);
  WindowedWeight windows = windowed(2, 6);
  const double start = loss_of(windows);
  const RefineHistory of_windows =
      refine_palettes(w_, h_in_, nullptr, {.iterations = 2, .sweeps = 2, .scales = true}, windows, h_out_);
  EXPECT_TRUE(near(loss_of(windows), *std::min_element(of_windows.begin(), of_windows.end()), {.rel = 1e-4}));
  EXPECT_LT(loss_of(windows), 0.7 * start);
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { update_palettes(w_, h_in_, DType::kF32, weight, h_in_); }, "(30, 30)"));
}

TEST_F(CoupledPalettes, RoundsEndBeforeAnEntryIsNotFinite) {
  std::fill(w_.values().begin(), w_.values().end(), 7e4f);  // beyond float16
  const PaletteWeight start{.palettes = {}, .scales = {}, .codes = Matrix<std::uint8_t>(40, 30)};
  for (const bool coupled : {false, true}) {
    PaletteWeight weight = start;
    weight.palettes = Matrix<float>(1, 2);
    weight.palettes(0, 0) = weight.palettes(0, 1) = 6e4f;
    const RefineHistory losses = refine_palettes(w_, h_in_, nullptr, {.iterations = 3}, weight,
                                                 coupled ? MatrixView<const float>(h_out_) : MatrixView<const float>());
    EXPECT_EQ(losses.size(), 1u);
    EXPECT_EQ(weight.palettes(0, 0), 6e4f);
  }
}

}  // namespace
}  // namespace nibble::quant
