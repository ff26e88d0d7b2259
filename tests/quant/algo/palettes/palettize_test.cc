#include "quant/algo/palettes/palettize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/algo/kmeans/palette.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::near;
using test::same_bits;
using test::throws_with;

Matrix<float> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed, double size = 0.02) {
  Random random(seed);
  Matrix<float> matrix(rows, cols);
  for (float& value : matrix.values()) value = static_cast<float>(size * random.normal());
  return matrix;
}

double plain_cost(const Matrix<float>& w, const Matrix<float>* weights, const Palettization& p, std::size_t rows) {
  double cost = 0.0;
  for (std::size_t i = 0; i < w.rows(); ++i) {
    for (std::size_t j = 0; j < w.cols(); ++j) {
      const double error = static_cast<double>(w(i, j)) - static_cast<double>(p.palettes(i / rows, p.codes(i, j)));
      cost += (weights != nullptr ? static_cast<double>((*weights)(i, j)) : 1.0) * error * error;
    }
  }
  return cost;
}

TEST(FitPalettes, AreThoseOfTheGroupsAlone) {
  const Matrix<float> w = random_matrix(7, 50, 1);
  const MatrixView<const float> columns = w.view().cols_slice(5, 30);  // rows with gaps between them
  for (const std::size_t group_rows : {0u, 1u, 3u, 7u, 100u}) {
    const std::vector<Palette> fitted = fit_palettes(columns, {}, group_rows, {.centroids = 5});
    const std::size_t rows = group_rows == 0 ? 7 : std::min<std::size_t>(group_rows, 7);
    ASSERT_EQ(fitted.size(), (7 + rows - 1) / rows);
    for (std::size_t g = 0; g < fitted.size(); ++g) {
      std::vector<float> values;
      for (std::size_t r = g * rows; r < std::min<std::size_t>(7, (g + 1) * rows); ++r)
        values.insert(values.end(), columns.row(r).begin(), columns.row(r).end());
      const Palette expected = fit_palette(values, {}, {.centroids = 5});
      EXPECT_TRUE(same_bits(fitted[g].centroids, expected.centroids));
      EXPECT_EQ(fitted[g].cost, expected.cost);
    }
  }
}

TEST(Palettize, EveryGroupOfRowsGetsItsOwnOptimalPalette) {
  const Matrix<float> w = random_matrix(7, 50, 1), weights = [] {
    Matrix<float> m = random_matrix(7, 50, 2);
    for (float& value : m.values()) value = value * value;
    return m;
  }();
  for (const std::size_t group_rows : {0u, 1u, 3u, 7u, 100u}) {
    SCOPED_TRACE(testing::Message() << "group of " << group_rows);
    const Palettization p = palettize(w, weights, {.bits = 3, .group_rows = group_rows, .palette_dtype = DType::kF32});
    const std::size_t rows = group_rows == 0 ? 7 : group_rows, groups = (7 + rows - 1) / rows;
    ASSERT_EQ(p.palettes.rows(), groups);
    ASSERT_EQ(p.palettes.cols(), 8u);
    double cost = 0.0;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t begin = g * rows * 50, count = std::min(rows * 50, 350 - begin);
      const Palette expected =
          fit_palette(w.values().subspan(begin, count), weights.values().subspan(begin, count), {.centroids = 8});
      EXPECT_TRUE(same_bits(p.palettes.row(g), expected.centroids));
      cost += expected.cost;
    }
    EXPECT_TRUE(near(p.cost, cost, {.rel = 1e-12}));                            // the same terms
    EXPECT_TRUE(near(plain_cost(w, &weights, p, rows), cost, {.rel = 1e-12}));  // and the codes belong to them
    EXPECT_LE(p.optimality_gap, 1e-9);
  }
}

TEST(Palettize, Float16PalettesAreRoundedBeforeCodesAreChosen) {
  const Matrix<float> w = random_matrix(4, 200, 3, 1.0);
  const Palettization p = palettize(w, {}, {.bits = 8, .group_rows = 1});
  std::size_t moved = 0;
  for (std::size_t i = 0; i < w.rows(); ++i) {
    for (const float entry : p.palettes.row(i)) ASSERT_EQ(entry, round_to_f16(entry));
    const Palette exact = fit_palette(w.row(i), {}, {.centroids = 256});
    std::vector<std::uint8_t> before(w.cols());
    assign_codes(w.row(i), exact.centroids, before);
    for (std::size_t j = 0; j < w.cols(); ++j) {
      const auto distance = [&](std::size_t c) {
        return std::abs(static_cast<double>(w(i, j)) - static_cast<double>(p.palettes(i, c)));
      };
      for (std::size_t c = 0; c < 256; ++c) ASSERT_LE(distance(p.codes(i, j)), distance(c));
      moved += static_cast<std::size_t>(before[j] != p.codes(i, j));
    }
  }
  EXPECT_GT(moved, 0u);  // otherwise this test could not tell
  EXPECT_TRUE(near(plain_cost(w, nullptr, p, 1), p.cost, {.rel = 1e-12}));
}

TEST(Palettize, ViewsWithGapsBetweenRowsWork) {
  const Matrix<float> wide = random_matrix(6, 40, 4);
  Matrix<float> narrow(6, 30);
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 30; ++j) narrow(i, j) = wide(i, j + 5);
  for (const std::size_t group_rows : {0u, 1u, 4u}) {
    const PalettizeOptions options{.bits = 2, .group_rows = group_rows};
    const Palettization a = palettize(wide.view().cols_slice(5, 30), {}, options), b = palettize(narrow, {}, options);
    EXPECT_TRUE(same_bits(a.palettes.values(), b.palettes.values()));
    EXPECT_TRUE(std::equal(a.codes.values().begin(), a.codes.values().end(), b.codes.values().begin()));
  }
}

TEST(Palettize, OneRowOneColumnAndAllZeros) {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 33}, {33, 1}, {1, 1}}) {
    const Matrix<float> w = random_matrix(rows, cols, 5);
    const Palettization p = palettize(w, {}, {.bits = 6, .group_rows = 2, .palette_dtype = DType::kF32});
    EXPECT_EQ(p.cost, 0.0);
    EXPECT_EQ(plain_cost(w, nullptr, p, 2), 0.0);
  }
  const Palettization zero = palettize(Matrix<float>(3, 5), {}, {.bits = 4});
  for (const float entry : zero.palettes.values()) EXPECT_EQ(entry, 0.0f);
  EXPECT_EQ(zero.cost, 0.0);
  EXPECT_EQ(zero.optimality_gap, 0.0);
}

TEST(Palettize, DoesNotDependOnTheNumberOfThreads) {
  const Matrix<float> w = random_matrix(40, 60, 6);
  const std::size_t threads = thread_count();
  set_thread_count(1);
  const Palettization one = palettize(w, {}, {.bits = 4, .group_rows = 3});
  set_thread_count(4);
  const Palettization four = palettize(w, {}, {.bits = 4, .group_rows = 3});
  set_thread_count(threads);
  EXPECT_TRUE(same_bits(one.palettes.values(), four.palettes.values()));
  EXPECT_TRUE(std::equal(one.codes.values().begin(), one.codes.values().end(), four.codes.values().begin()));
  EXPECT_EQ(one.cost, four.cost);
}

TEST(Palettize, BadInputIsNamed) {
  Matrix<float> w = random_matrix(3, 4, 7);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)palettize(w, {}, {.bits = 9}); }, "1 to 8 bits", "9"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)palettize(w, {}, {.palette_dtype = DType::kBF16}); }, "BF16"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)palettize(w, Matrix<float>(4, 3), {}); }, "(3, 4)", "(4, 3)"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)palettize({}, {}, {}); }, "empty"));
  w(2, 1) = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t group_rows : {0u, 1u, 2u})
    EXPECT_TRUE(throws_with<NumericalError>([&] { (void)palettize(w, {}, {.group_rows = group_rows}); }, "row 2",
                                            "column 1", "nan"));
  w(2, 1) = 1e6f;
  EXPECT_TRUE(
      throws_with<NumericalError>([&] { (void)palettize(w, {}, {.group_rows = 1}); }, "1000000", "palette 2", "65504"));
  EXPECT_NO_THROW((void)palettize(w, {}, {.palette_dtype = DType::kF32}));
}

}  // namespace
}  // namespace nibble::quant
