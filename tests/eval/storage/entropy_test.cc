#include "eval/storage/entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "tests/support/compare.h"

namespace nibble::eval {
namespace {

using test::near;

std::vector<RowSpan> rows_of(std::size_t rows, std::size_t cols) {
  std::vector<RowSpan> spans;
  for (std::size_t r = 0; r < rows; ++r) spans.push_back({r * cols, cols, r > 0});
  return spans;
}

TEST(Entropy, OfUniformCodesIsTheirWidth) {
  Random random(1);
  std::vector<std::uint32_t> values(1 << 18);
  for (std::uint32_t& v : values) v = static_cast<std::uint32_t>(random.below(16));
  const Entropies e = entropies(values, rows_of(256, 1024), 4);
  // The deviation of an entropy estimate near the maximum is of the order of cells / N: 16 / 2^18, with contexts 256.
  EXPECT_TRUE(near(e.order0, 4.0, {.abs = 1e-3}));
  EXPECT_TRUE(near(e.given_previous, 4.0, {.abs = 5e-3}));
  EXPECT_TRUE(near(e.given_above, 4.0, {.abs = 5e-3}));
  EXPECT_TRUE(near(e.within_row, 4.0, {.abs = 5e-3}));
}

TEST(Entropy, SeesWhatRowsNeighboursAndColumnsTell) {
  // Row r holds r mod 4 throughout: nothing is left within a row or given the left neighbour.
  std::vector<std::uint32_t> values(64 * 100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i / 100 % 4);
  const Entropies e = entropies(values, rows_of(64, 100), 2);
  EXPECT_TRUE(near(e.order0, 2.0, {.abs = 1e-3}));
  EXPECT_TRUE(near(e.within_row, 0.0, {}));
  EXPECT_TRUE(near(e.given_previous, 0.0, {}));
  EXPECT_TRUE(near(e.given_above, 0.0, {}));
}

TEST(Entropy, OfWideValuesIsThatOfTheirBytes) {
  std::vector<std::uint32_t> values(1 << 12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(0x4000u + i % 2);
  const Entropies e = entropies(values, rows_of(1, values.size()), 16);
  EXPECT_TRUE(near(e.order0, 1.0, {.abs = 1e-3}));  // one bit in the low byte, none in the high one
  EXPECT_TRUE(std::isnan(e.given_previous) && std::isnan(e.within_row));
}

}  // namespace
}  // namespace nibble::eval
