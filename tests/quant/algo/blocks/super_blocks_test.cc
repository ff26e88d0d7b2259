#include "quant/algo/blocks/super_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::throws_with;

/// Blocks whose sizes differ by an order of magnitude, as those of a row do.
Matrix<float> uneven_weights(std::size_t rows, std::size_t cols, std::size_t block, std::uint64_t seed) {
  Random random(seed);
  Matrix<float> w(rows, cols);
  for (std::size_t i = 0; i < rows; ++i) {
    double size = 0.0;
    for (std::size_t j = 0; j < cols; ++j) {
      if (j % block == 0) size = 0.02 * std::exp(0.6 * random.normal());
      w(i, j) = static_cast<float>(size * random.normal());
    }
  }
  return w;
}

/// The nearest number of 6 significant bits, by trying all of them around it.
double six_bits(double value) {
  double best = 0.0;
  for (int exponent = -24; exponent <= 16; ++exponent)
    for (int n = -63; n <= 63; ++n)
      if (const double candidate = std::ldexp(n, exponent); std::abs(candidate - value) < std::abs(best - value))
        best = candidate;
  return best;
}

/// Σ c (s - k d)² with the best multiples k.
double loss_with(const std::vector<double>& scales, const std::vector<double>& costs, double step) {
  double loss = 0.0;
  for (std::size_t b = 0; b < scales.size(); ++b) {
    double least = std::numeric_limits<double>::infinity();
    for (int k = -32; k <= 31; ++k) least = std::min(least, (scales[b] - k * step) * (scales[b] - k * step));
    loss += costs[b] * least;
  }
  return loss;
}

/// The step that `scales` are multiples of, if it is one of 6 bits: by trying what makes the largest of them 1 to 32.
bool are_multiples(const std::vector<double>& scales) {
  double largest = 0.0;
  for (const double scale : scales) largest = std::max(largest, std::abs(scale));
  if (largest == 0.0) return true;
  for (const double sign : {1.0, -1.0})
    for (int n = 1; n <= 32; ++n) {
      const double step = sign * largest / n;
      if (round_to_f16(static_cast<float>(step)) != static_cast<float>(step)) continue;
      if (std::all_of(scales.begin(), scales.end(), [&](double scale) {
            const double k = scale / step;
            return k == std::nearbyint(k) && k >= -32.0 && k <= 31.0;
          }))
        return true;
    }
  return false;
}

struct Case {
  unsigned bits;
  std::size_t block, cols;
};
constexpr Case kCases[]{{3, 16, 512}, {3, 16, 384}, {4, 32, 256}, {2, 64, 520}, {5, 16, 40}};

TEST(SuperBlocks, HaveMultiplesOfTheBestOfTheStepsThatAreTried) {
  constexpr std::uint64_t kSeed = 71;
  SCOPED_TRACE(kSeed);
  for (const Case& one : kCases) {
    SCOPED_TRACE(testing::Message() << one.bits << " bits, blocks of " << one.block << ", rows of " << one.cols);
    const Matrix<float> w = uneven_weights(7, one.cols, one.block, kSeed + one.cols);
    const BlockRoundingOptions options{.bits = one.bits, .block = one.block, .scale = BlockScale::kExtreme};
    const BlockRounding before = round_blocks(w, options);
    BlockRounding after = before;
    share_steps(w, options, 256, after);
    const std::size_t blocks = before.scales.cols(), together = 256 / one.block;
    for (std::size_t i = 0; i < w.rows(); ++i)
      for (std::size_t first = 0; first < blocks; first += together) {
        std::vector<double> scales, costs, shared;
        double extreme = 0.0, loss = 0.0;
        for (std::size_t b = first; b < std::min(blocks, first + together); ++b) {
          scales.push_back(before.scales(i, b));
          shared.push_back(after.scales(i, b));
          costs.push_back(0.0);
          for (std::size_t j = b * one.block; j < std::min(w.cols(), (b + 1) * one.block); ++j)
            costs.back() += std::pow(static_cast<double>(before.codes(i, j)) - (1 << (one.bits - 1)), 2);
          if (std::abs(scales.back()) > std::abs(extreme)) extreme = scales.back();
          loss += costs.back() * (scales.back() - shared.back()) * (scales.back() - shared.back());
        }
        EXPECT_TRUE(are_multiples(shared)) << "row " << i << ", block " << first;
        double least = std::numeric_limits<double>::infinity();
        for (int n = 24; n <= 32; ++n) {
          if (n <= 31) least = std::min(least, loss_with(scales, costs, six_bits(extreme / n)));
          least = std::min(least, loss_with(scales, costs, six_bits(extreme / -n)));
        }
        EXPECT_LE(loss, least * (1.0 + 1e-12)) << "row " << i << ", block " << first;  // sums in another order
      }
  }
}

TEST(SuperBlocks, HaveTheNearestCodesForTheirScales) {
  const Matrix<float> w = uneven_weights(19, 400, 16, 5);
  const BlockRoundingOptions options{.bits = 3, .block = 16, .scale = BlockScale::kExtreme};
  BlockRounding rounded = round_blocks(w, options);
  share_steps(w, options, 256, rounded);
  const BlockPaletteOptions palette{.block = 32, .palette = BlockPalette::kIq4Nl, .search = true};
  BlockPaletteRounding entries = round_block_palette(w, {}, palette);
  share_steps(w, palette, 256, entries);
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); ++j) {
      const double value = w(i, j), scale = rounded.scales(i, j / 16), other = entries.scales(i, j / 32);
      const auto grid = [&](int code) { return std::abs(value - (code - 4) * scale); };
      const auto entry = [&](std::size_t code) {
        return std::abs(value - static_cast<double>(entries.palette[code]) * other);
      };
      // Codes are of value · (1 / scale) in float: what rounds differently there lies half-way to 2^-22.
      const double slack = std::abs(value) * 0x1p-21;
      for (int code = 0; code < 8; ++code) ASSERT_LE(grid(rounded.codes(i, j)), grid(code) + slack) << i << ", " << j;
      for (std::size_t code = 0; code < 16; ++code)
        ASSERT_LE(entry(entries.codes(i, j)), entry(code) + slack) << i << ", " << j;
    }
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t first = 0; first < entries.scales.cols(); first += 8) {
      const std::size_t count = std::min<std::size_t>(8, entries.scales.cols() - first);
      const auto row = std::as_const(entries.scales).row(i).subspan(first, count);
      EXPECT_TRUE(are_multiples({row.begin(), row.end()})) << "row " << i << ", block " << first;
    }
}

TEST(SuperBlocks, HoldWhatIsZeroTinyAndHuge) {
  Matrix<float> w(4, 256);
  for (std::size_t j = 0; j < 256; ++j) {
    const float wave = static_cast<float>(static_cast<int>(j % 7) - 3);
    w(1, j) = wave * 0x1p-24f;               // scales below the least step
    w(2, j) = wave * 65504.0f;               // scales up to float16's largest
    w(3, j) = j < 16 ? wave : wave * 1e-3f;  // one block of a row a thousand times the others: these have no step left
  }
  const BlockRoundingOptions options{.bits = 3, .block = 16, .scale = BlockScale::kExtreme};
  BlockRounding rounded = round_blocks(w, options);
  share_steps(w, options, 256, rounded);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = std::as_const(rounded.scales).row(i);
    EXPECT_TRUE(are_multiples({row.begin(), row.end()})) << "row " << i;
    for (const float scale : row) EXPECT_EQ(round_to_f16(scale), scale) << "row " << i;
  }
  for (std::size_t j = 0; j < 256; ++j) EXPECT_EQ(rounded.codes(0, j), 4) << j;
  EXPECT_GT(std::abs(rounded.scales(2, 3)), 40000.0f);
  EXPECT_EQ(rounded.scales(3, 9), 0.0f);
  for (std::size_t j = 16; j < 256; ++j) EXPECT_EQ(rounded.codes(3, j), 4) << j;
}

TEST(SuperBlocks, DoNotDependOnThreads) {
  const Matrix<float> w = uneven_weights(70, 300, 16, 9);
  const BlockRoundingOptions options{.bits = 3, .block = 16, .scale = BlockScale::kExtreme};
  std::vector<BlockRounding> results;
  for (const std::size_t threads : {1u, 3u}) {
    const ThreadTeam team(threads);
    results.push_back(round_blocks(w, options));
    share_steps(w, options, 256, results.back());
  }
  EXPECT_TRUE(test::same_bits(results[0].scales.values(), results[1].scales.values()));
  EXPECT_EQ(results[0].codes.values().size(), results[1].codes.values().size());
  EXPECT_TRUE(std::equal(results[0].codes.values().begin(), results[0].codes.values().end(),
                         results[1].codes.values().begin()));
}

TEST(SuperBlocks, RefuseWhatHasNone) {
  const Matrix<float> w = uneven_weights(2, 64, 16, 3);
  const auto refused = [&](const BlockRoundingOptions& options, std::size_t super_block, const char* why) {
    BlockRounding rounded = round_blocks(w, options);
    return throws_with<InvalidArgument>([&] { share_steps(w, options, super_block, rounded); }, why);
  };
  EXPECT_TRUE(refused({.bits = 3, .block = 16, .scale = BlockScale::kMinmax}, 256, "without zero points"));
  EXPECT_TRUE(refused({.bits = 3, .block = 0}, 256, "no whole number of blocks of 0"));
  EXPECT_TRUE(refused({.bits = 3, .block = 32}, 48, "super-blocks of 48 inputs"));
  const BlockPaletteOptions palette{.block = 32, .palette = BlockPalette::kFp4, .scale = ScaleType::kE8M0};
  BlockPaletteRounding entries = round_block_palette(w, {}, palette);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { share_steps(w, palette, 256, entries); }, "scales of float16"));
}

}  // namespace
}  // namespace nibble::quant
