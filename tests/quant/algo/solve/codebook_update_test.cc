#include "quant/algo/solve/codebook_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/solve/refine_palettes.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::all_near;
using nibble::test::near;
using nibble::test::same_bits;
using nibble::test::throws_with;

/// Nearest codes of w / scales.
PaletteWeight start_of(const Matrix<float>& w, unsigned bits, std::size_t group_rows, bool scaled) {
  PaletteWeight weight{.palettes = {}, .group_rows = group_rows, .scales = {}, .codes = {}};
  Matrix<float> divided = w;
  for (std::size_t r = 0; r < w.rows() && scaled; ++r) {
    weight.scales.push_back(r % 3 == 1 ? -0.5f : 0.25f * static_cast<float>(1 + r % 2));
    for (float& value : divided.row(r)) value /= weight.scales[r];
  }
  Palettization nearest =
      palettize(divided, {}, {.bits = bits, .group_rows = group_rows, .palette_dtype = DType::kF32});
  weight.palettes = std::move(nearest.palettes);
  weight.codes = std::move(nearest.codes);
  return weight;
}

double plain_loss(const Matrix<float>& w, const Matrix<float>& h, const PaletteWeight& weight) {
  Matrix<double> delta(w.rows(), w.cols());
  for (std::size_t r = 0; r < w.rows(); ++r) {
    const std::size_t group = weight.group_rows == 0 ? 0 : r / weight.group_rows;
    const double scale = weight.scales.empty() ? 1.0 : static_cast<double>(weight.scales[r]);
    for (std::size_t c = 0; c < w.cols(); ++c)
      delta(r, c) =
          static_cast<double>(w(r, c)) - scale * static_cast<double>(weight.palettes(group, weight.codes(r, c)));
  }
  return plain_error(delta, h);
}

TEST(UpdatePalettes, NoChangeOfAnyEntryLowersTheLoss) {
  const std::size_t n = 70;                                                         // more than one chunk of columns
  const Matrix<float> w = random_weights(37, n, 1), h = random_hessian(n, 200, 1);  // more than one tile of rows
  for (const std::size_t group_rows : {0u, 1u, 8u}) {
    for (const bool scaled : {false, true}) {
      SCOPED_TRACE(testing::Message() << "groups of " << group_rows << ", scaled " << scaled);
      PaletteWeight weight = start_of(w, 2, group_rows, scaled);
      const double before = plain_loss(w, h, weight);
      update_palettes(w, h, DType::kF32, weight);
      const double best = plain_loss(w, h, weight);
      EXPECT_LT(best, before);
      for (std::size_t i = 0; i < weight.palettes.size(); ++i) {
        const float entry = weight.palettes.data()[i];
        for (const float step : {-0.01f, 0.01f}) {
          weight.palettes.data()[i] = entry + step * 0.05f;
          EXPECT_GT(plain_loss(w, h, weight), best * (1.0 - 1e-9));
        }
        weight.palettes.data()[i] = entry;
      }
    }
  }
}

TEST(UpdatePalettes, OfManyEntriesEndsWhereTheLossHasNoSlope) {
  const std::size_t n = 96, k = 256;
  const Matrix<float> w = random_weights(64, n, 4);
  Matrix<float> h = random_hessian(n, 100, 4);
  for (std::size_t i = 0; i < n; ++i)  // inputs of very different size: entries are coupled unevenly
    for (std::size_t j = 0; j < n; ++j) h(i, j) *= std::exp(0.04f * (static_cast<float>(i) + static_cast<float>(j)));
  PaletteWeight weight = start_of(w, 8, 0, true);
  const auto slopes = [&] {  // sum_i s_i P_ikT H (w_i - w^_i), for every entry
    std::vector<double> slope(k);
    for (std::size_t r = 0; r < w.rows(); ++r)
      for (std::size_t j = 0; j < n; ++j) {
        double along = 0.0;
        for (std::size_t c = 0; c < n; ++c) {
          const double scale = static_cast<double>(weight.scales[r]);
          const double decoded = scale * static_cast<double>(weight.palettes(0, weight.codes(r, c)));
          along += static_cast<double>(h(j, c)) * (static_cast<double>(w(r, c)) - decoded);
        }
        slope[weight.codes(r, j)] += static_cast<double>(weight.scales[r]) * along;
      }
    double length = 0.0;
    for (const double value : slope) length += value * value;
    return std::sqrt(length);
  };
  const double before = slopes();
  update_palettes(w, h, DType::kF32, weight);
  // The solver stops at 1e-10 of the squared length, so at 1e-5 of the length it was preconditioned with.
  EXPECT_LT(slopes(), 2e-5 * before);
}

TEST(UpdatePalettes, WithoutCorrelationsEntriesAreMeansWeightedByScalesSquared) {
  const Matrix<float> w = random_weights(20, 50, 2);
  PaletteWeight weight = start_of(w, 3, 0, true);
  const PaletteWeight before = weight;
  update_palettes(w, identity(50), DType::kF32, weight);
  for (std::size_t c = 0; c < 8; ++c) {
    double along = 0.0, square = 0.0;
    for (std::size_t r = 0; r < 20; ++r) {
      for (std::size_t j = 0; j < 50; ++j) {
        if (before.codes(r, j) != c) continue;
        const double scale = static_cast<double>(weight.scales[r]);
        along += scale * static_cast<double>(w(r, j));
        square += scale * scale;
      }
    }
    // The ridge keeps 1e-7 of the mean diagonal's share of the old entry; clusters differ in weight by less than 100.
    EXPECT_TRUE(near(static_cast<double>(weight.palettes(0, c)), along / square, {.rel = 1e-5}));
  }
}

TEST(UpdatePalettes, EntriesWithoutInputsStayAndCodesFollowTheOrder) {
  const Matrix<float> w = random_weights(6, 30, 3), h = random_hessian(30, 90, 3);
  PaletteWeight weight = start_of(w, 2, 0, false);
  for (std::uint8_t& code : weight.codes.values()) code = code == 2 ? 1 : code;
  const float unused = weight.palettes(0, 2);
  update_palettes(w, h, DType::kF32, weight);
  const auto row = weight.palettes.row(0);
  EXPECT_TRUE(std::is_sorted(row.begin(), row.end()));
  EXPECT_NE(std::find(row.begin(), row.end(), unused), row.end());

  PaletteWeight swapped = start_of(w, 1, 0, false);  // codes of the wrong ends: the solution crosses over
  for (std::uint8_t& code : swapped.codes.values()) code = static_cast<std::uint8_t>(1 - code);
  update_palettes(w, identity(30), DType::kF32, swapped);
  PaletteWeight straight = start_of(w, 1, 0, false);
  update_palettes(w, identity(30), DType::kF32, straight);
  EXPECT_TRUE(
      std::equal(swapped.codes.values().begin(), swapped.codes.values().end(), straight.codes.values().begin()));
  EXPECT_TRUE(all_near(swapped.palettes.values(), straight.palettes.values(), {.rel = 1e-5}));
}

TEST(UpdatePalettes, AHessianOfZerosOrRankOneKeepsEntriesFinite) {
  const Matrix<float> w = random_weights(3, 20, 4);
  PaletteWeight weight = start_of(w, 4, 1, false);
  const PaletteWeight before = weight;
  update_palettes(w, Matrix<float>(20, 20), DType::kF32, weight);
  EXPECT_TRUE(same_bits(weight.palettes.values(), before.palettes.values()));
  Matrix<float> rank_one(20, 20);
  for (std::size_t i = 0; i < 20; ++i)
    for (std::size_t j = 0; j < 20; ++j) rank_one(i, j) = static_cast<float>((i % 5 + 1) * (j % 5 + 1));
  const double loss = plain_loss(w, rank_one, weight);
  update_palettes(w, rank_one, DType::kF32, weight);  // one equation for 16 unknowns
  EXPECT_LT(plain_loss(w, rank_one, weight), 1e-3 * loss);
  // H = v vᵀ with v > 0: a row asks that Σ aₖ Δₖ = Σ vⱼ δⱼ, aₖ the sum of the v of entry k, δ the errors before. The
  // least Δ has |Δ| = |Σ vⱼ δⱼ| / |a| <= 4 max |δ|, for |a| is at least a fourth (√16) of Σ aₖ = Σ vⱼ.
  double largest = 0.0;
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t j = 0; j < 20; ++j)
      largest = std::max(largest, std::abs(static_cast<double>(w(r, j)) -
                                           static_cast<double>(before.palettes(r, before.codes(r, j)))));
  for (std::size_t i = 0; i < weight.palettes.size(); ++i)
    EXPECT_TRUE(near(static_cast<double>(weight.palettes.data()[i]), static_cast<double>(before.palettes.data()[i]),
                     {.abs = 4.0 * largest + 1e-6}));
}

TEST(UpdateScales, NoOtherScaleIsBetterByMoreThanFloat16) {
  const Matrix<float> w = random_weights(40, 33, 5), h = random_hessian(33, 90, 5);
  PaletteWeight weight = start_of(w, 2, 0, true);
  for (float& scale : weight.scales) scale *= 1.3f;
  const double before = plain_loss(w, h, weight);
  update_scales(w, h, weight);
  const double best = plain_loss(w, h, weight);
  EXPECT_LT(best, 0.9 * before);
  for (float& scale : weight.scales) {
    EXPECT_EQ(scale, round_to_f16(scale));
    const float kept = scale;
    for (const float factor : {0.998f, 1.002f}) {  // float16 steps are at most 1/1024
      scale = kept * factor;
      EXPECT_GE(plain_loss(w, h, weight), best);
    }
    scale = kept;
  }
}

TEST(UpdateScales, RowsOfZerosKeepTheirScale) {
  Matrix<float> w = random_weights(3, 8, 6);
  std::fill(w.row(1).begin(), w.row(1).end(), 0.0f);
  PaletteWeight weight = start_of(w, 2, 0, true);
  weight.palettes(0, weight.codes(1, 0)) = 0.0f;
  const float before = weight.scales[1];
  update_scales(w, random_hessian(8, 30, 6), weight);
  EXPECT_EQ(weight.scales[1], before);
}

TEST(RefinePalettes, FallsFromIterationToIterationAndLeavesTheBest) {
  const std::size_t n = 150;
  const Matrix<float> w = random_weights(48, n, 7), h = random_hessian(n, 300, 7);
  for (const std::size_t group_rows : {0u, 1u, 16u}) {
    SCOPED_TRACE(testing::Message() << "groups of " << group_rows);
    PaletteWeight weight = start_of(w, 2, group_rows, true);
    const RefineHistory losses = refine_palettes(
        w, h, nullptr, {.iterations = 3, .sweeps = 3, .scales = true, .palette_dtype = DType::kF32}, weight);
    ASSERT_EQ(losses.size(), 5u);
    for (std::size_t i = 1; i < losses.size(); ++i)
      EXPECT_LE(losses[i], losses[i - 1] * (1.0 + 1e-3));  // scales are rounded to float16: relative 2^-11, squared
    EXPECT_LT(losses.back(), 0.7 * losses.front());
    EXPECT_TRUE(near(plain_loss(w, h, weight), *std::min_element(losses.begin(), losses.end()), {.rel = 1e-4}));
  }
}

TEST(RefinePalettes, WithFeedbackItIsBetterStillThanNearestCodes) {
  const Matrix<float> w = random_weights(48, 150, 8), h = random_hessian(150, 300, 8);
  PaletteWeight weight = start_of(w, 3, 0, true);
  const HessianFactor factor = factor_hessian<float>(h.view(), {});
  const RefineHistory losses = refine_palettes(w, h, &factor, {.iterations = 2, .sweeps = 0}, weight);
  EXPECT_LT(plain_loss(w, h, weight), 0.7 * losses.front());
  for (const float entry : weight.palettes.values()) EXPECT_EQ(entry, round_to_f16(entry));
}

TEST(RefinePalettes, NoIterationsLeaveEverythingAsItIs) {
  const Matrix<float> w = random_weights(4, 10, 9);
  PaletteWeight weight = start_of(w, 2, 0, false);
  const PaletteWeight before = weight;
  EXPECT_EQ(refine_palettes(w, identity(10), nullptr, {.iterations = 0}, weight).size(), 1u);
  EXPECT_TRUE(same_bits(weight.palettes.values(), before.palettes.values()));
}

TEST(UpdatePalettes, ThreadsDoNotChangeTheEntries) {
  const Matrix<float> w = random_weights(100, 90, 10), h = random_hessian(90, 200, 10);
  std::vector<PaletteWeight> weights(2, start_of(w, 3, 0, true));
  for (const std::size_t run : {0u, 1u}) {
    set_thread_count(run == 0 ? 1 : 3);
    update_palettes(w, h, DType::kF32, weights[run]);
    update_scales(w, h, weights[run]);
  }
  set_thread_count(0);
  EXPECT_TRUE(same_bits(weights[0].palettes.values(), weights[1].palettes.values()));
  EXPECT_TRUE(same_bits(weights[0].scales, weights[1].scales));
}

TEST(UpdatePalettes, WhatCannotWorkIsRefused) {
  const Matrix<float> w = random_weights(4, 10, 11);
  PaletteWeight weight = start_of(w, 2, 0, false);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { update_palettes(w, identity(9), DType::kF32, weight); }, "(9, 9)"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { update_palettes(w, identity(10), DType::kBF16, weight); }, "BF16"));
  weight.codes(1, 1) = 4;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { update_palettes(w, identity(10), DType::kF32, weight); }, "below 4"));
  weight.codes(1, 1) = 0;
  Matrix<float> large = w;
  for (float& value : large.values()) value *= 1e7f;
  EXPECT_TRUE(throws_with<NumericalError>([&] { update_palettes(large, identity(10), DType::kF16, weight); }, "F16"));
}

}  // namespace
}  // namespace nibble::quant
