#include "quant/algo/solve/coordinate_descent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/solve/error_feedback.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::near;
using nibble::test::throws_with;

/// One sweep in double, every term of the formula summed anew.
void plain_sweep(const Matrix<float>& w, const Matrix<float>& h, const ColumnRounding& rounding,
                 Matrix<std::uint8_t>& codes) {
  const std::size_t n = w.cols();
  for (std::size_t r = 0; r < w.rows(); ++r) {
    std::vector<double> error(n);
    for (std::size_t j = 0; j < n; ++j) {
      float decoded = 0.0f;
      rounding.decode(j, r, {&codes(r, j), 1}, &decoded);
      error[j] = static_cast<double>(decoded) - static_cast<double>(w(r, j));
    }
    for (std::size_t j = 0; j < n; ++j) {
      double target = static_cast<double>(w(r, j));
      for (std::size_t k = 0; k < n; ++k)
        if (k != j) target -= static_cast<double>(h(k, j)) / static_cast<double>(h(j, j)) * error[k];
      const auto value = static_cast<float>(target);
      float decoded = 0.0f;
      rounding.round(j, r, {&value, 1}, &codes(r, j), &decoded);
      error[j] = static_cast<double>(decoded) - static_cast<double>(w(r, j));
    }
  }
}

std::vector<std::uint8_t> all(const Matrix<std::uint8_t>& codes) {
  return {codes.values().begin(), codes.values().end()};
}

TEST(CoordinateDescent, FollowsThePlainLoopsSweepBySweep) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::size_t n = 20 + 40 * (seed - 1);  // up to two blocks
    const Matrix<float> w = random_weights(7, n, seed), h = random_hessian(n, 3 * n, seed);
    const Palettization start = palettize(w, {}, {.bits = 3, .group_rows = 2});
    const PaletteRounding rounding(start.palettes, 2, {});
    Matrix<std::uint8_t> mine = start.codes, expected = start.codes;
    double loss = hessian_error(w, h, rounding, mine);
    for (int sweep = 0; sweep < 3; ++sweep) {
      const DescentResult result = coordinate_descent(w, h, rounding, 1, mine);
      plain_sweep(w, h, rounding, expected);
      EXPECT_EQ(all(mine), all(expected));
      EXPECT_EQ(result.loss_before, loss);
      EXPECT_LE(result.loss, loss);
      loss = result.loss;
    }
  }
}

TEST(CoordinateDescent, NoSweepRaisesTheLossAndTheEndIsAFixedPoint) {
  const std::size_t n = 300;
  const Matrix<float> w = random_weights(40, n, 3), h = random_hessian(n, 600, 3);
  const BlockRoundingOptions options{.bits = 3, .block = 32};
  GridRounding grid(w, options, true);
  const Palettization palette = palettize(w, {}, {.bits = 2});
  const PaletteRounding nearest(palette.palettes, 0, {});
  for (const ColumnRounding* rounding : std::initializer_list<const ColumnRounding*>{&grid, &nearest}) {
    Matrix<std::uint8_t> codes = rounding == &grid ? round_blocks(w, options).codes : palette.codes;
    double loss = hessian_error(w, h, *rounding, codes);
    const double start = loss;
    bool settled = false;
    for (int sweep = 0; sweep < 60 && !settled; ++sweep) {
      const Matrix<std::uint8_t> before = codes;
      const DescentResult result = coordinate_descent(w, h, *rounding, 1, codes);
      settled = all(before) == all(codes);
      EXPECT_LE(result.loss, loss * (1.0 + 1e-5));  // sums of 300 products in float
      loss = result.loss;
    }
    EXPECT_TRUE(settled);
    EXPECT_LT(loss, 0.6 * start);
    EXPECT_EQ(coordinate_descent(w, h, *rounding, 9, codes).sweeps, 1u);  // one that changes nothing
  }
}

TEST(CoordinateDescent, GoesOnForAsLongAsASweepGains) {
  const std::size_t n = 200;
  const Matrix<float> w = random_weights(60, n, 12), h = random_hessian(n, 220, 12);
  const Palettization palette = palettize(w, {}, {.bits = 2});
  const PaletteRounding rounding(palette.palettes, 0, {});
  for (const double least_gain : {0.5, 0.01, 0.001}) {
    SCOPED_TRACE(least_gain);
    Matrix<std::uint8_t> alone = palette.codes, together = palette.codes;
    std::size_t sweeps = 0;
    DescentResult one;
    do {
      one = coordinate_descent(w, h, rounding, 1, alone);
      ++sweeps;
    } while (one.loss_before - one.loss >= least_gain * one.loss);
    const DescentResult result = coordinate_descent(w, h, rounding, 40, together, least_gain);
    EXPECT_EQ(result.sweeps, sweeps);
    EXPECT_EQ(all(alone), all(together));
    EXPECT_EQ(coordinate_descent(w, h, rounding, 1, together, least_gain).sweeps, 1u) << "one to see that it is done";
    if (least_gain < 0.005) {
      EXPECT_GT(result.sweeps, 4u) << "or this shows nothing";
    }
  }
}

TEST(CoordinateDescent, ImprovesOnErrorFeedback) {
  const Matrix<float> w = random_weights(30, 200, 5), h = random_hessian(200, 300, 5);
  const Palettization palette = palettize(w, {}, {.bits = 2, .group_rows = 1});
  PaletteRounding rounding(palette.palettes, 1, {});
  Matrix<std::uint8_t> codes = round_with_feedback(w, factor_hessian<float>(h.view(), {}), rounding).codes;
  const DescentResult result = coordinate_descent(w, h, rounding, 4, codes);
  EXPECT_LT(result.loss, 0.99 * result.loss_before);
}

TEST(CoordinateDescent, SilentInputsAreRoundedToNearest) {
  const Matrix<float> w = random_weights(4, 12, 6);
  Matrix<float> h = random_hessian(12, 40, 6);
  for (std::size_t k = 0; k < 12; ++k) h(5, k) = h(k, 5) = 0.0f;
  const Palettization palette = palettize(w, {}, {.bits = 2});
  const PaletteRounding rounding(palette.palettes, 0, {});
  Matrix<std::uint8_t> codes(4, 12);
  coordinate_descent(w, h, rounding, 2, codes);
  for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(codes(r, 5), palette.codes(r, 5));
}

TEST(CoordinateDescent, OneRowOneColumnAndRankOneWork) {
  for (const auto& [rows, cols] : {std::pair{1, 50}, {50, 1}, {1, 1}}) {
    const Matrix<float> w = random_weights(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), 7);
    Matrix<float> h(w.cols(), w.cols());
    std::fill(h.values().begin(), h.values().end(), 2.0f);
    const Palettization palette = palettize(w, {}, {.bits = 2});
    const PaletteRounding rounding(palette.palettes, 0, {});
    Matrix<std::uint8_t> codes = palette.codes;
    const DescentResult result = coordinate_descent(w, h, rounding, 10, codes);
    EXPECT_LE(result.loss, result.loss_before * (1.0 + 1e-5));
    if (cols == 1) {
      EXPECT_EQ(all(codes), all(palette.codes));
    }
  }
}

TEST(CoordinateDescent, ThreadsDoNotChangeTheCodes) {
  const Matrix<float> w = random_weights(280, 140, 8), h = random_hessian(140, 300, 8);
  const Palettization palette = palettize(w, {}, {.bits = 3});
  const PaletteRounding rounding(palette.palettes, 0, {});
  std::vector<Matrix<std::uint8_t>> codes(2, palette.codes);
  std::vector<double> losses;
  for (const std::size_t run : {0u, 1u}) {
    set_thread_count(run == 0 ? 1 : 3);
    losses.push_back(coordinate_descent(w, h, rounding, 2, codes[run]).loss);
  }
  set_thread_count(0);
  EXPECT_EQ(all(codes[0]), all(codes[1]));
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(CoordinateDescent, WhatCannotWorkIsRefused) {
  const Matrix<float> w = random_weights(3, 5, 9);
  const Palettization palette = palettize(w, {}, {.bits = 2});
  const PaletteRounding rounding(palette.palettes, 0, {});
  Matrix<std::uint8_t> codes = palette.codes;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { coordinate_descent(w, identity(4), rounding, 1, codes); }, "(3, 5)",
                                           "(4, 4)"));
  Matrix<float> h = identity(5);
  h(1, 2) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(throws_with<NumericalError>([&] { coordinate_descent(w, h, rounding, 1, codes); }, "nan"));
}

}  // namespace
}  // namespace nibble::quant
