#include "quant/algo/vectors/vector_palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

Matrix<float> normal_values(std::size_t rows, std::size_t cols, std::uint64_t seed, bool positive = false) {
  Random random(seed);
  Matrix<float> values(rows, cols);
  for (float& value : values.values())
    value = static_cast<float>(positive ? std::exp(random.normal()) : random.normal());
  return values;
}

/// Equation (1) in plain loops, for the codes given or, with `nearest`, for the best ones.
double plain_cost(const Matrix<float>& w, const Matrix<float>& f, const VectorPalettization& made, std::size_t dim,
                  std::size_t group_rows, bool nearest) {
  double cost = 0.0;
  for (std::size_t i = 0; i < w.rows(); ++i) {
    const auto palette = made.palettes.row(group_rows == 0 ? 0 : i / group_rows);
    for (std::size_t v = 0; v < w.cols() / dim; ++v) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < palette.size() / dim; ++k) {
        if (!nearest && k != made.codes(i, v)) continue;
        double loss = 0.0;
        for (std::size_t d = 0; d < dim; ++d) {
          const double weight = f.size() == 0 ? 1.0 : static_cast<double>(f(i, v * dim + d));
          loss +=
              weight * std::pow(static_cast<double>(w(i, v * dim + d)) - static_cast<double>(palette[k * dim + d]), 2);
        }
        least = std::min(least, loss);
      }
      cost += least;
    }
  }
  return cost;
}

TEST(PalettizeVectors, CodesAreNearestInTheirOwnMetricAndTheCostIsTheirs) {
  for (const std::size_t dim : {2u, 4u}) {
    for (const std::size_t group_rows : {0u, 3u, 1u}) {
      for (const bool weighted : {false, true}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << ", " << group_rows << " rows, weighted " << weighted);
        const Matrix<float> w = normal_values(7, 148, dim);  // counts that fill no register
        const Matrix<float> f = weighted ? normal_values(7, 148, dim + 1, true) : Matrix<float>();
        const auto made = palettize_vectors(w, weighted ? f.view() : MatrixView<const float>(),
                                            {.bits = 4, .dim = dim, .group_rows = group_rows});
        const double cost = plain_cost(w, f, made, dim, group_rows, false);
        // Distances are sums of at most 4 products in float.
        EXPECT_TRUE(test::near(made.cost, cost, {.rel = 1e-5}));
        EXPECT_LE(cost, plain_cost(w, f, made, dim, group_rows, true) * (1.0 + 1e-5));
      }
    }
  }
}

TEST(PalettizeVectors, NoEntryCanBeMovedToLoseLess) {
  const Matrix<float> w = normal_values(16, 256, 1), f = normal_values(16, 256, 2, true);
  const auto made = palettize_vectors(w, f, {.bits = 5, .dim = 2, .palette_dtype = DType::kF32});
  for (std::size_t at = 0; at < made.palettes.cols(); ++at) {
    double moment = 0.0, weight = 0.0;
    for (std::size_t i = 0; i < w.rows(); ++i)
      for (std::size_t j = at % 2; j < w.cols(); j += 2)
        if (made.codes(i, j / 2) == at / 2) {
          moment += static_cast<double>(f(i, j) * w(i, j));
          weight += static_cast<double>(f(i, j));
        }
    ASSERT_GT(weight, 0.0) << "an entry without members";
    // Lloyd's stops when a round gains less than 1e-4: means still wander a little. Values are of size 1.
    EXPECT_TRUE(test::near(static_cast<double>(made.palettes(0, at)), moment / weight, {.abs = 0.05}));
  }
}

TEST(PalettizeVectors, BeatScalarsOfTheSameSizeWhereInputsGoTogether) {
  Matrix<float> w = normal_values(32, 256, 3);
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); j += 2) w(i, j + 1) = w(i, j) + 0.1f * w(i, j + 1);
  const auto made = palettize_vectors(w, {}, {.bits = 4, .dim = 2});
  // The best 2-bit scalar palette of a normal distribution leaves 11.75 % of the variance, so 2 · 4096 · 0.1175 of it.
  EXPECT_LT(made.cost, 0.25 * 8192 * 0.1175);
}

TEST(PalettizeVectors, FewDistinctVectorsAreKept) {
  Random random(4);
  Matrix<float> w(9, 40);
  for (std::size_t v = 0; v < 180; ++v) {
    const auto kind = static_cast<float>(random.below(11));
    w.data()[2 * v] = kind;
    w.data()[2 * v + 1] = -0.5f * kind;
  }
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    const auto made = palettize_vectors(w, {}, {.bits = 4, .dim = 2, .palette_dtype = dtype});
    EXPECT_EQ(made.cost, 0.0);
  }
}

TEST(PalettizeVectors, ValuesWithoutWeightDoNotCount) {
  Matrix<float> w = normal_values(8, 64, 5), f = normal_values(8, 64, 6, true);
  for (std::size_t i = 0; i < 8; ++i) w(i, 3 * i) = 6e4f, f(i, 3 * i) = 0.0f;
  const auto made = palettize_vectors(w, f, {.bits = 6, .dim = 4});
  for (const float entry : made.palettes.values()) EXPECT_LT(std::abs(entry), 10.0f);
}

TEST(PalettizeVectors, DegenerateInputIsSafe) {
  const Matrix<float> zeros(3, 8), row = normal_values(1, 4, 7), constant = [] {
    Matrix<float> w(5, 4);
    std::fill(w.values().begin(), w.values().end(), -0.25f);
    return w;
  }();
  for (const std::size_t dim : {2u, 4u}) {
    for (const DType dtype : {DType::kF16, DType::kF32, DType::kI8}) {
      const VectorPaletteOptions options{.bits = 8, .dim = dim, .group_rows = 1, .palette_dtype = dtype};
      EXPECT_EQ(palettize_vectors(zeros, {}, options).cost, 0.0);
      EXPECT_EQ(palettize_vectors(zeros, zeros, options).cost, 0.0) << "zero weights count as ones";
      // int8: half a step of max / 127; float16: half a unit in the 11th bit.
      EXPECT_LE(palettize_vectors(row, {}, options).cost, 4 * 9e-5);
      EXPECT_LE(palettize_vectors(constant, {}, options).cost, 20 * 1e-8);
    }
  }
}

TEST(PalettizeVectors, TheSeedDecidesAndThreadsDoNot) {
  const Matrix<float> w = normal_values(160, 512, 8);  // more vectors than a tile, and than the sample
  std::vector<VectorPalettization> made;
  for (const std::size_t threads : {1u, 3u}) {
    set_thread_count(threads);
    made.push_back(palettize_vectors(w, {}, {.bits = 3, .dim = 2, .seed = 1}));
    made.push_back(palettize_vectors(w, {}, {.bits = 3, .dim = 2, .group_rows = 50, .seed = 1}));
  }
  set_thread_count(0);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_TRUE(test::same_bits(made[i].palettes.values(), made[i + 2].palettes.values()));
    EXPECT_TRUE(std::ranges::equal(made[i].codes.values(), made[i + 2].codes.values()));
  }
  const auto other = palettize_vectors(w, {}, {.bits = 3, .dim = 2, .seed = 2});
  EXPECT_FALSE(std::ranges::equal(other.palettes.values(), made[0].palettes.values()));
}

TEST(PalettizeVectors, BadInputIsNamed) {
  Matrix<float> w = normal_values(3, 8, 9), f = normal_values(3, 8, 10, true);
  const auto refused = [&](const VectorPaletteOptions& options) { (void)palettize_vectors(w, f, options); };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { refused({.bits = 9}); }, "bits"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { refused({.dim = 3}); }, "2 or 4"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { (void)palettize_vectors(w.view().cols_slice(0, 6), {}, {.dim = 4}); }, "(3, 6)", "vectors of 4"));
  f(1, 2) = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { refused({}); }, "row 1, column 2"));
  f(1, 2) = 1.0f;
  w(2, 5) = 7e4f;
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { refused({}); }, "65504"));
  w(2, 5) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { refused({}); }, "row 2, column 5"));
}

}  // namespace
}  // namespace nibble::quant
