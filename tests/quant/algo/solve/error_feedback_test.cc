#include "quant/algo/solve/error_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::near;
using nibble::test::throws_with;

/// Palettes, scales and the rounding that uses them.
struct PaletteCase {
  Matrix<float> palettes;
  std::vector<float> scales;
  std::size_t group_rows = 0;
  PaletteRounding rounding() const { return {palettes, group_rows, scales}; }
};

PaletteCase palette_case(const Matrix<float>& w, unsigned bits, std::size_t group_rows, bool scaled) {
  PaletteCase result{.palettes = {}, .scales = {}, .group_rows = group_rows};
  Matrix<float> divided = w;
  for (std::size_t r = 0; r < w.rows() && scaled; ++r) {
    const float scale = (r % 3 == 1 ? -0.5f : 0.25f) * static_cast<float>(1 + r % 2);
    result.scales.push_back(scale);
    for (float& value : divided.row(r)) value /= scale;
  }
  result.palettes = palettize(divided, {}, {.bits = bits, .group_rows = group_rows}).palettes;
  return result;
}

/// The textbook algorithm in double (optimal brain quantization in a fixed order): one inverse Hessian per row, from
/// which each rounded input is eliminated.
Matrix<std::uint8_t> textbook(const Matrix<float>& w, const Matrix<float>& h, const HessianFactor& factor,
                              ColumnRounding& rounding) {
  const std::size_t n = w.cols(), rows = w.rows();
  Matrix<double> inverse(n, n), left(n, n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) left(i, j) = static_cast<double>(h(i, j)) + (i == j ? factor.damping[i] : 0.0);
    inverse(i, i) = 1.0;
  }
  for (std::size_t p = 0; p < n; ++p) {  // Gauss-Jordan; positive definite, so no pivoting
    const double pivot = left(p, p);
    for (std::size_t j = 0; j < n; ++j) {
      left(p, j) /= pivot;
      inverse(p, j) /= pivot;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double multiple = left(i, p);
      for (std::size_t j = 0; j < n && i != p; ++j) {
        left(i, j) -= multiple * left(p, j);
        inverse(i, j) -= multiple * inverse(p, j);
      }
    }
  }
  Matrix<double> current(rows, n);
  std::copy(w.values().begin(), w.values().end(), current.values().begin());
  Matrix<std::uint8_t> codes(rows, n);
  for (const std::size_t j : factor.order) {
    const std::size_t adaptive = rounding.adaptive_block();
    if (adaptive != 0 && j % adaptive == 0) {
      Matrix<float> block(rows, std::min(adaptive, n - j));
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < block.cols(); ++i) block(r, i) = static_cast<float>(current(r, j + i));
      rounding.adapt(j / adaptive, 0, block);
    }
    std::vector<float> column(rows), decoded(rows);
    std::vector<std::uint8_t> chosen(rows);
    for (std::size_t r = 0; r < rows; ++r) column[r] = static_cast<float>(current(r, j));
    rounding.round(j, 0, column, chosen.data(), decoded.data());
    for (std::size_t r = 0; r < rows; ++r) {
      codes(r, j) = chosen[r];
      const double step = (current(r, j) - static_cast<double>(decoded[r])) / inverse(j, j);
      for (std::size_t k = 0; k < n; ++k) current(r, k) -= step * inverse(j, k);
    }
    const std::vector<double> row(inverse.row(j).begin(), inverse.row(j).end());
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) inverse(a, b) -= row[a] * row[b] / row[j];
    for (std::size_t a = 0; a < n; ++a) inverse(a, j) = inverse(j, a) = 0.0;  // what rounding left there
  }
  return codes;
}

std::size_t rows_that_differ(const Matrix<std::uint8_t>& a, const Matrix<std::uint8_t>& b) {
  std::size_t count = 0;
  for (std::size_t r = 0; r < a.rows(); ++r)
    count += std::equal(a.row(r).begin(), a.row(r).end(), b.row(r).begin()) ? 0u : 1u;
  return count;
}

std::vector<std::uint8_t> all(const Matrix<std::uint8_t>& codes) {
  return {codes.values().begin(), codes.values().end()};
}

TEST(ErrorFeedback, WithoutCorrelationsIsRoundingToNearestOnEveryGrid) {
  const Matrix<float> w = random_weights(131, 203, 1), h = identity(203);
  for (const bool act_order : {false, true}) {
    const HessianFactor factor = factor_hessian<float>(h.view(), {.act_order = act_order});
    for (const BlockScale scale :
         {BlockScale::kExtreme, BlockScale::kAbsmax, BlockScale::kAbsmaxHalf, BlockScale::kMinmax}) {
      for (const std::size_t block : {0u, 32u, 150u}) {
        for (const unsigned bits : {3u, 8u}) {
          for (const bool fixed : {false, true}) {
            if (act_order && !fixed) continue;
            SCOPED_TRACE(testing::Message() << "rule " << static_cast<int>(scale) << " block " << block << " bits "
                                            << bits << " act-order " << act_order << " static " << fixed);
            const BlockRoundingOptions options{.bits = bits, .block = block, .scale = scale};
            GridRounding rounding(w, options, fixed);
            const BlockRounding nearest = round_blocks(w, options);
            const FeedbackResult result = round_with_feedback(w, factor, rounding);
            ASSERT_EQ(all(result.codes), all(nearest.codes));
            EXPECT_TRUE(nibble::test::same_bits(rounding.scales().values(), nearest.scales.values()));
            EXPECT_EQ(all(rounding.zeros()), all(nearest.zeros));
          }
        }
      }
    }
  }
}

TEST(ErrorFeedback, WithoutCorrelationsIsTheNearestEntryOfEveryPalette) {
  const Matrix<float> w = random_weights(20, 140, 2);
  const HessianFactor factor = factor_hessian<float>(identity(140).view(), {});
  for (const std::size_t group_rows : {0u, 1u, 8u}) {
    for (const bool scaled : {false, true}) {
      for (const unsigned bits : {1u, 3u, 4u}) {
        SCOPED_TRACE(testing::Message() << "groups of " << group_rows << ", scaled " << scaled << ", bits " << bits);
        const PaletteCase p = palette_case(w, bits, group_rows, scaled);
        PaletteRounding rounding = p.rounding();
        const FeedbackResult result = round_with_feedback(w, factor, rounding);
        double squares = 0.0;
        for (std::size_t r = 0; r < w.rows(); ++r) {
          const std::size_t group = group_rows == 0 ? 0 : r / group_rows;
          std::vector<float> divided(w.row(r).begin(), w.row(r).end());
          for (float& value : divided) value /= scaled ? p.scales[r] : 1.0f;
          std::vector<std::uint8_t> nearest(w.cols());
          assign_codes(divided, p.palettes.row(group), nearest);
          ASSERT_EQ(std::vector<std::uint8_t>(result.codes.row(r).begin(), result.codes.row(r).end()), nearest);
          for (std::size_t c = 0; c < w.cols(); ++c) {
            const float decoded = (scaled ? p.scales[r] : 1.0f) * p.palettes(group, nearest[c]);
            squares += std::pow(static_cast<double>(w(r, c)) - static_cast<double>(decoded), 2);
          }
        }
        // e is rounded three times (the factor, its inverse, the product), and squared.
        EXPECT_TRUE(near(result.loss, squares, {.rel = 1e-5}));
      }
    }
  }
}

TEST(ErrorFeedback, GivesTheCodesOfTheTextbookAlgorithm) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const bool act_order : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", act-order " << act_order);
      const std::size_t n = 10 + 3 * seed;
      const Matrix<float> w = random_weights(6, n, seed), h = random_hessian(n, 3 * n, seed);
      const HessianFactor factor = factor_hessian<float>(h.view(), {.act_order = act_order});
      std::vector<std::unique_ptr<ColumnRounding>> roundings;
      for (const bool scaled : {false, true}) {
        for (const std::size_t group_rows : {0u, 1u, 4u}) {
          const PaletteCase p = palette_case(w, 3, group_rows, scaled);
          PaletteRounding rounding = p.rounding();
          EXPECT_EQ(all(round_with_feedback(w, factor, rounding).codes), all(textbook(w, h, factor, rounding)));
        }
      }
      for (const std::size_t block : {0u, 4u, 7u}) {
        for (const bool fixed : {false, true}) {
          if (act_order && !fixed) continue;
          const BlockRoundingOptions options{.bits = 3, .block = block, .scale = BlockScale::kMinmax};
          GridRounding mine(w, options, fixed), reference(w, options, fixed);
          EXPECT_EQ(all(round_with_feedback(w, factor, mine).codes), all(textbook(w, h, factor, reference)));
          // Scales of weights in float and in double: now and then float16 rounds them apart, by 2^-10.
          EXPECT_TRUE(nibble::test::all_near(mine.scales().values(), reference.scales().values(), {.rel = 0x1p-10}));
        }
      }
    }
  }
}

TEST(ErrorFeedback, BlocksOfInputsChangeNothing) {
  const std::size_t n = 300, rows = 40;  // three blocks; groups of 48 within blocks, of 200 across
  const Matrix<float> w = random_weights(rows, n, 4), h = random_hessian(n, 2 * n, 4);
  for (const std::size_t block : {0u, 48u, 200u}) {
    for (const bool fixed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "block " << block << ", static " << fixed);
      const HessianFactor factor = factor_hessian<float>(h.view(), {.act_order = fixed});
      const BlockRoundingOptions options{.bits = 4, .block = block, .scale = BlockScale::kAbsmax};
      GridRounding mine(w, options, fixed), reference(w, options, fixed);
      const FeedbackResult result = round_with_feedback(w, factor, mine);
      const Matrix<std::uint8_t> expected = textbook(w, h, factor, reference);
      // A value within 1e-6 of the middle between two codes may fall either way and take its row along: some 12000
      // values, 1e-5 of a step wide, so seldom even one row.
      EXPECT_LE(rows_that_differ(result.codes, expected), 2u);
      EXPECT_TRUE(near(result.loss, hessian_error(w, h, mine, result.codes), {.rel = 1e-3}));  // damped part taken off
      EXPECT_LT(result.loss, 0.7 * hessian_error(w, h, reference, round_blocks(w, options).codes));
    }
  }
}

TEST(ErrorFeedback, SilentInputsAreRoundedToNearestAndLeaveTheOthersAlone) {
  const std::size_t n = 40;
  const Matrix<float> w = random_weights(9, n, 5);
  Matrix<float> h = random_hessian(n, 90, 5);
  const std::vector<std::size_t> dead{0, 13, 39};
  for (const std::size_t j : dead)
    for (std::size_t k = 0; k < n; ++k) h(j, k) = h(k, j) = 0.0f;
  std::vector<std::size_t> alive(n);
  std::iota(alive.begin(), alive.end(), std::size_t{0});
  std::erase_if(alive, [&](std::size_t j) { return std::find(dead.begin(), dead.end(), j) != dead.end(); });
  Matrix<float> fewer_w(9, alive.size()), fewer_h(alive.size(), alive.size());
  for (std::size_t i = 0; i < alive.size(); ++i) {
    for (std::size_t r = 0; r < 9; ++r) fewer_w(r, i) = w(r, alive[i]);
    for (std::size_t k = 0; k < alive.size(); ++k) fewer_h(i, k) = h(alive[i], alive[k]);
  }
  for (const bool act_order : {false, true}) {
    const PaletteCase p = palette_case(w, 2, 0, true);
    PaletteRounding rounding = p.rounding();
    const HessianFactor factor = factor_hessian<float>(h.view(), {.act_order = act_order});
    EXPECT_EQ(factor.silent_inputs, dead.size());
    const FeedbackResult result = round_with_feedback(w, factor, rounding);
    const FeedbackResult fewer =
        round_with_feedback(fewer_w, factor_hessian<float>(fewer_h.view(), {.act_order = act_order}), rounding);
    for (std::size_t r = 0; r < 9; ++r) {
      for (std::size_t i = 0; i < alive.size(); ++i) EXPECT_EQ(result.codes(r, alive[i]), fewer.codes(r, i));
      for (const std::size_t j : dead) {
        std::uint8_t nearest = 0;
        const float divided = w(r, j) / p.scales[r];
        assign_codes({&divided, 1}, p.palettes.row(0), {&nearest, 1});
        EXPECT_EQ(result.codes(r, j), nearest);
      }
    }
    EXPECT_TRUE(near(result.loss, fewer.loss, {.rel = 1e-4}));
  }
}

/// A step for each input.
class StepRounding final : public ColumnRounding {
 public:
  explicit StepRounding(std::vector<float> steps) : steps_(std::move(steps)) {}
  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
             float* decoded) const override {
    for (std::size_t r = 0; r < values.size(); ++r)
      codes[r] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(values[r] / steps_[column]), -8.0f, 7.0f) + 8.0f);
    decode(column, first_row, {codes, values.size()}, decoded);
  }
  void decode(std::size_t column, std::size_t /*first_row*/, std::span<const std::uint8_t> codes,
              float* decoded) const override {
    for (std::size_t r = 0; r < codes.size(); ++r) decoded[r] = steps_[column] * (static_cast<float>(codes[r]) - 8.0f);
  }

 private:
  std::vector<float> steps_;
};

TEST(ErrorFeedback, UnitsOfInputsChangeNoCode) {
  // Inputs times 2^k with weights divided by as much: exact in float, so the same network to the last bit.
  const std::size_t n = 90;
  const Matrix<float> w = random_weights(20, n, 11), h = random_hessian(n, 200, 11);
  Matrix<float> scaled_w = w, scaled_h = h;
  std::vector<float> steps(n, 0.04f), scaled_steps = steps;
  const auto unit = [](std::size_t j) { return j % 10 == 3 ? 64.0f : 1.0f; };
  for (std::size_t j = 0; j < n; ++j) {
    scaled_steps[j] /= unit(j);
    for (std::size_t r = 0; r < w.rows(); ++r) scaled_w(r, j) /= unit(j);
    for (std::size_t k = 0; k < n; ++k) scaled_h(j, k) *= unit(j) * unit(k);
  }
  StepRounding grid(steps), scaled_grid(scaled_steps);
  const FeedbackResult plain =
      round_with_feedback(w, factor_hessian<float>(h.view(), {.damping = 0.1, .act_order = false}), grid);
  const FeedbackResult scaled = round_with_feedback(
      scaled_w, factor_hessian<float>(scaled_h.view(), {.damping = 0.1, .act_order = false}), scaled_grid);
  EXPECT_EQ(all(plain.codes), all(scaled.codes));
  EXPECT_TRUE(near(plain.loss, scaled.loss, {.rel = 1e-6}));  // sums in another order of magnitude
}

TEST(ErrorFeedback, OneRowAndOneColumnWork) {
  for (const auto& [rows, cols] : {std::pair{1, 50}, {50, 1}, {1, 1}}) {
    const Matrix<float> w = random_weights(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), 6);
    const Matrix<float> h = random_hessian(w.cols(), 100, 6);
    const HessianFactor factor = factor_hessian<float>(h.view(), {});
    GridRounding grid(w, {.bits = 4, .block = 32}, true);
    EXPECT_EQ(all(round_with_feedback(w, factor, grid).codes), all(textbook(w, h, factor, grid)));
    const PaletteCase p = palette_case(w, 4, 1, false);
    PaletteRounding rounding = p.rounding();
    EXPECT_EQ(all(round_with_feedback(w, factor, rounding).codes), all(textbook(w, h, factor, rounding)));
  }
}

TEST(ErrorFeedback, AHessianOfRankOneAndZeroWeightsAndScalesWork) {
  Matrix<float> h(64, 64), w = random_weights(5, 64, 7);
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < 64; ++j) h(i, j) = static_cast<float>((i % 5 + 1) * (j % 5 + 1));
  const HessianFactor factor = factor_hessian<float>(h.view(), {});
  std::fill(w.row(2).begin(), w.row(2).end(), 0.0f);
  const BlockRoundingOptions options{.bits = 4, .block = 0};
  GridRounding grid(w, options, true);
  const FeedbackResult result = round_with_feedback(w, factor, grid);
  for (const std::uint8_t code : result.codes.row(2)) EXPECT_EQ(code, 8);
  EXPECT_LT(result.loss,
            0.01 * hessian_error(w, h, grid, round_blocks(w, options).codes));  // only one direction counts

  const Matrix<float> palette = palettize(w, {}, {.bits = 4}).palettes;
  const std::vector<float> scales{1.0f, 1.0f, 0.0f, 1.0f, 1.0f};
  PaletteRounding rounding(palette, 0, scales);
  EXPECT_LT(round_with_feedback(w, factor, rounding).loss, 1.0);
}

TEST(ErrorFeedback, AGridForTheWholeRowIsTheSameStaticOrNot) {
  const Matrix<float> w = random_weights(5, 20, 10);
  const HessianFactor factor = factor_hessian<float>(random_hessian(20, 60, 10).view(), {});
  GridRounding fixed(w, {.bits = 3, .block = 0}, true), adaptive(w, {.bits = 3, .block = 32}, false);
  EXPECT_EQ(all(round_with_feedback(w, factor, fixed).codes), all(round_with_feedback(w, factor, adaptive).codes));
}

TEST(ErrorFeedback, ThreadsDoNotChangeTheCodes) {
  const Matrix<float> w = random_weights(300, 260, 8), h = random_hessian(260, 400, 8);
  const HessianFactor factor = factor_hessian<float>(h.view(), {});
  std::vector<FeedbackResult> results;
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    GridRounding grid(w, {.bits = 3, .block = 32}, true);
    results.push_back(round_with_feedback(w, factor, grid));
  }
  set_thread_count(0);
  EXPECT_EQ(all(results[0].codes), all(results[1].codes));
  EXPECT_EQ(results[0].loss, results[1].loss);
}

TEST(ErrorFeedback, WhatCannotWorkIsRefusedByName) {
  Matrix<float> w = random_weights(4, 8, 9);
  const HessianFactor factor = factor_hessian<float>(random_hessian(8, 30, 9).view(), {});
  GridRounding adaptive(w, {.bits = 4, .block = 4}, false);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)round_with_feedback(w, factor, adaptive); }, "static groups"));
  GridRounding grid(w, {.bits = 4, .block = 4}, true);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)round_with_feedback(Matrix<float>(4, 7), factor, grid); },
                                           "(4, 7)", "8 inputs"));
  w(3, 2) = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(
      throws_with<NumericalError>([&] { (void)round_with_feedback(w, factor, grid); }, "row 3", "column 2", "inf"));
  Matrix<float> palette(1, 2);
  palette(0, 0) = 1.0f;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { PaletteRounding(palette, 0, {}); }, "ascending", "entry 1"));
}

}  // namespace
}  // namespace nibble::quant
