#include "quant/algo/palettes/sparse_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/refine_palettes.h"
#include "tests/quant/algo/solve/hessian_problem.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using namespace quant::test;
using nibble::test::near;
using nibble::test::throws_with;

/// Every 37th weight kept, and a palette for the others.
struct SparseCase {
  Matrix<float> w, h;
  SparseValues kept;
  Palettization palette;
};

SparseCase sparse_case(std::size_t rows, std::size_t n, std::uint64_t seed) {
  SparseCase made{random_weights(rows, n, seed), random_hessian(n, 2 * n, seed), {}, {}};
  Outliers places{{0}, {}};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < n; ++j)
      if ((r * n + j) % 37 == 5) places.columns.push_back(static_cast<std::int32_t>(j));
    places.rows.push_back(static_cast<std::int32_t>(places.columns.size()));
  }
  made.kept = values_at(std::move(places), made.w);
  Matrix<float> dense = made.w;
  mask_outliers(made.kept.places, dense);
  made.palette = palettize(dense, {}, {.bits = 2});
  return made;
}

/// What is stored: palette entries, and the kept values.
Matrix<double> errors_of(const SparseCase& c, const Matrix<float>& palettes, const Matrix<std::uint8_t>& codes,
                         const SparseValues& kept) {
  Matrix<double> delta(c.w.rows(), c.w.cols());
  for (std::size_t r = 0; r < c.w.rows(); ++r)
    for (std::size_t j = 0; j < c.w.cols(); ++j)
      delta(r, j) = static_cast<double>(c.w(r, j)) - static_cast<double>(palettes(0, codes(r, j)));
  for (std::size_t r = 0; r < c.w.rows(); ++r)
    for (auto i = static_cast<std::size_t>(kept.places.rows[r]); i < static_cast<std::size_t>(kept.places.rows[r + 1]);
         ++i) {
      const auto j = static_cast<std::size_t>(kept.places.columns[i]);
      delta(r, j) = static_cast<double>(c.w(r, j)) - static_cast<double>(kept.values[i]);
    }
  return delta;
}

TEST(SparseRounding, FeedbackLeavesToAKeptWeightWhatCameToIt) {
  SparseCase c = sparse_case(20, 90, 1);
  const HessianFactor factor = factor_hessian<float>(c.h.view(), {});
  PaletteRounding entries(c.palette.palettes, 0, {});
  SparseRounding rounding(entries, 90, c.kept);
  const FeedbackResult result = round_with_feedback(c.w, factor, rounding);
  // The recursion in double, where a kept place has no error but that of float16.
  std::size_t at = 0;
  for (std::size_t r = 0; r < 20; ++r) {
    std::vector<double> work(90), value(90);
    for (std::size_t j = 0; j < 90; ++j) work[j] = static_cast<double>(c.w(r, j));
    const auto begin = static_cast<std::size_t>(c.kept.places.rows[r]),
               end = static_cast<std::size_t>(c.kept.places.rows[r + 1]);
    for (std::size_t p = 0; p < 90; ++p) {
      const std::size_t j = factor.order[p];
      double decoded = static_cast<double>(c.palette.palettes(0, result.codes(r, j)));
      for (std::size_t i = begin; i < end; ++i) {
        if (static_cast<std::size_t>(c.kept.places.columns[i]) != j) continue;
        decoded = static_cast<double>(c.kept.values[i]);
        // A difference from the entry nearest 0, to float16; sums of at most 90 products in float.
        EXPECT_TRUE(near(decoded, work[j], {.abs = 0x1p-11 * 0.1, .rel = 0x1p-11})) << "row " << r << ", input " << j;
        ++at;
      }
      const double error = (work[j] - decoded) / static_cast<double>(factor.upper(p, p));
      for (std::size_t q = p + 1; q < 90; ++q) work[factor.order[q]] -= error * static_cast<double>(factor.upper(p, q));
    }
  }
  EXPECT_EQ(at, c.kept.values.size());
  EXPECT_TRUE(near(result.loss, plain_error(errors_of(c, c.palette.palettes, result.codes, c.kept), c.h),
                   {.rel = 1e-3}));            // the damped part taken off
  SparseCase pinned = sparse_case(20, 90, 1);  // as they are
  EXPECT_LT(result.loss, plain_error(errors_of(c, c.palette.palettes, result.codes, pinned.kept), c.h));
}

TEST(SparseRounding, DescentGivesKeptWeightsTheirOptimum) {
  SparseCase c = sparse_case(20, 90, 2);
  const PaletteRounding entries(c.palette.palettes, 0, {});
  const SparseRounding rounding(entries, 90, c.kept);
  Matrix<std::uint8_t> codes = c.palette.codes;
  const DescentResult result = coordinate_descent(c.w, c.h, rounding, 200, codes);
  const double best = plain_error(errors_of(c, c.palette.palettes, codes, c.kept), c.h);
  EXPECT_TRUE(near(result.loss, best, {.rel = 1e-4}));
  EXPECT_LT(best, result.loss_before);
  for (float& value : c.kept.values) {
    const float kept = value;
    for (const float step : {-0.002f, 0.002f}) {  // float16 steps of values below 0.25 are below 0.000123
      value = kept + step;
      EXPECT_GT(plain_error(errors_of(c, c.palette.palettes, codes, c.kept), c.h), best);
    }
    value = kept;
  }
}

TEST(SparseRounding, PalettesAndScalesAreTheBestBesideKeptWeights) {
  SparseCase c = sparse_case(24, 70, 3);
  PaletteWeight weight{.palettes = c.palette.palettes,
                       .group_rows = 0,
                       .scales = std::vector<float>(24, 1.0f),
                       .codes = c.palette.codes,
                       .sparse = c.kept};
  for (float& value : weight.sparse.values) value += 0.02f;  // an error that the others are to make up for
  const auto loss = [&] {
    Matrix<double> delta = errors_of(c, weight.palettes, weight.codes, weight.sparse);
    for (std::size_t r = 0; r < 24; ++r)
      for (std::size_t j = 0; j < 70; ++j) {
        const bool kept = (r * 70 + j) % 37 == 5;
        if (!kept)
          delta(r, j) =
              static_cast<double>(c.w(r, j)) -
              static_cast<double>(weight.scales[r]) * static_cast<double>(weight.palettes(0, weight.codes(r, j)));
      }
    return plain_error(delta, c.h);
  };
  const double before = loss();
  update_palettes(c.w, c.h, DType::kF32, weight);
  double best = loss();
  EXPECT_LT(best, before);
  for (float& entry : weight.palettes.values()) {
    const float kept = entry;
    for (const float step : {-0.0005f, 0.0005f}) {
      entry = kept + step;
      EXPECT_GT(loss(), best * (1.0 - 1e-9));
    }
    entry = kept;
  }
  update_scales(c.w, c.h, weight);
  best = loss();
  for (float& scale : weight.scales) {
    const float kept = scale;
    for (const float factor : {0.998f, 1.002f}) {  // float16 steps are at most 1/1024
      scale = kept * factor;
      EXPECT_GE(loss(), best);
    }
    scale = kept;
  }
  const RefineHistory losses =
      refine_palettes(c.w, c.h, nullptr, {.iterations = 3, .scales = true, .palette_dtype = DType::kF32}, weight);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_TRUE(near(loss(), *std::min_element(losses.begin(), losses.end()), {.rel = 1e-4}));
}

TEST(SparseRounding, WhatDoesNotFitIsRefusedAndWhatIsTooLargeIsClamped) {
  SparseCase c = sparse_case(4, 40, 4);
  const PaletteRounding entries(c.palette.palettes, 0, {});
  SparseValues fewer = c.kept;
  fewer.values.pop_back();
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { SparseRounding(entries, 40, fewer); }, "places"));
  const SparseRounding rounding(entries, 40, c.kept);
  std::uint8_t code = 0;
  float decoded = 0.0f;
  const float huge = 1e9f;
  rounding.round(5, 0, {&huge, 1}, &code, &decoded);
  EXPECT_TRUE(near(decoded, 65504.0f, {.rel = 1e-5}));
}

}  // namespace
}  // namespace nibble::quant
