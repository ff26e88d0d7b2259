#include "quant/algo/blocks/block_rounding.h"

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

using test::same_bits;
using test::throws_with;
constexpr BlockScale kRules[]{BlockScale::kExtreme, BlockScale::kAbsmax, BlockScale::kAbsmaxHalf, BlockScale::kMinmax};

/// The documented rules once more, in plain loops over one block.
struct Expected {
  float scale = 0.0f;
  int zero = 0;
  std::vector<int> codes;
};

Expected round_plainly(const std::vector<float>& block, unsigned bits, BlockScale rule) {
  const float half = static_cast<float>(1 << (bits - 1));
  const int top = (1 << bits) - 1;
  float extreme = block[0], low = 0.0f, high = 0.0f;
  for (const float value : block) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Expected expected;
  switch (rule) {
    case BlockScale::kExtreme:
      expected.scale = extreme / -half;
      break;
    case BlockScale::kAbsmax:
      expected.scale = std::abs(extreme) / (half - 1.0f);
      break;
    case BlockScale::kAbsmaxHalf:
      expected.scale = std::abs(extreme) / (half - 0.5f);
      break;
    case BlockScale::kMinmax:
      expected.scale = (high - low) / static_cast<float>(top);
      break;
  }
  expected.scale = round_to_f16(expected.scale);
  expected.zero = static_cast<int>(half);
  if (rule == BlockScale::kMinmax)
    expected.zero = expected.scale == 0.0f ? 0 : std::min(top, static_cast<int>(std::nearbyint(-low / expected.scale)));
  for (const float value : block) {
    const float steps = expected.scale == 0.0f ? 0.0f : std::nearbyint(value * (1.0f / expected.scale));
    expected.codes.push_back(
        static_cast<int>(std::clamp(steps + static_cast<float>(expected.zero), 0.0f, static_cast<float>(top))));
  }
  return expected;
}

void expect_plain_rounding(const Matrix<float>& w, unsigned bits, std::size_t block, BlockScale rule) {
  const BlockRounding rounded = round_blocks(w, {.bits = bits, .block = block, .scale = rule});
  const std::size_t length = block == 0 ? w.cols() : block, blocks = (w.cols() + length - 1) / length;
  ASSERT_EQ(rounded.scales.cols(), blocks);
  ASSERT_EQ(rounded.zeros.size(), rule == BlockScale::kMinmax ? w.rows() * blocks : 0);
  for (std::size_t i = 0; i < w.rows(); ++i) {
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto row = w.row(i).subspan(b * length, std::min(length, w.cols() - b * length));
      const Expected expected = round_plainly({row.begin(), row.end()}, bits, rule);
      ASSERT_EQ(rounded.scales(i, b), expected.scale) << "row " << i << ", block " << b;
      if (rule == BlockScale::kMinmax) {
        ASSERT_EQ(rounded.zeros(i, b), expected.zero) << "row " << i << ", block " << b;
      }
      for (std::size_t j = 0; j < row.size(); ++j)
        ASSERT_EQ(rounded.codes(i, b * length + j), expected.codes[j]) << "row " << i << ", value " << row[j];
    }
  }
}

TEST(RoundBlocks, FollowsTheDocumentedRuleForEveryWidthBlockAndScale) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Matrix<float> w(1 + random.below(4), 1 + random.below(150));
    for (float& value : w.values()) {
      value = static_cast<float>(0.02 * random.normal());
      if (seed % 4 == 1) value = static_cast<float>(random.below(31)) * 0.25f - 3.5f;  // ties and equal magnitudes
      if (seed % 4 == 2) value = std::abs(value) + 0.1f;                               // all of one sign
      if (seed % 4 == 3 && random.below(3) > 0) value = 0.0f;
    }
    for (const BlockScale rule : kRules)
      for (const unsigned bits : {2u, 3u, 4u, 8u})
        for (const std::size_t block : {std::size_t{0}, std::size_t{5}, std::size_t{32}, std::size_t{64}})
          expect_plain_rounding(w, bits, block, rule);
  }
}

TEST(RoundBlocks, TheExtremeValueIsTheCodeThatHasNoOppositeAndKeepsItsSign) {
  Matrix<float> w(1, 4);
  const std::vector<float> values{4.0f, -1.0f, 0.75f, -4.0f};  // of equal magnitudes the first counts
  std::copy(values.begin(), values.end(), w.data());
  const BlockRounding rounded = round_blocks(w, {.bits = 4, .block = 32, .scale = BlockScale::kExtreme});
  EXPECT_EQ(rounded.scales(0, 0), -0.5f);
  EXPECT_EQ(rounded.codes(0, 0), 0);   // 4 / -0.5 = -8
  EXPECT_EQ(rounded.codes(0, 1), 10);  // -1 / -0.5 = 2
  EXPECT_EQ(rounded.codes(0, 2), 6);   // 0.75 / -0.5 = -1.5, to even: -2
  EXPECT_EQ(rounded.codes(0, 3), 15);  // 8 is clamped to 7
}

TEST(RoundBlocks, ZeroAndVanishingBlocksDecodeToExactZeros) {
  Matrix<float> w(2, 40);
  for (std::size_t j = 0; j < 40; ++j) w(1, j) = j % 2 == 0 ? 1e-12f : -1e-12f;  // the scale is below float16
  for (const BlockScale rule : kRules) {
    const BlockRounding rounded = round_blocks(w, {.bits = 4, .block = 32, .scale = rule});
    for (const float scale : rounded.scales.values()) {
      EXPECT_EQ(scale, 0.0f);
      EXPECT_FALSE(std::signbit(scale));
    }
    for (const std::uint8_t zero : rounded.zeros.values()) EXPECT_EQ(zero, 0);
    for (const std::uint8_t code : rounded.codes.values()) EXPECT_EQ(code, rule == BlockScale::kMinmax ? 0 : 8);
  }
}

TEST(RoundBlocks, ErrorsStayWithinHalfAStepOfUnclippedRules) {
  Random random(3);
  Matrix<float> w(8, 96);
  for (float& value : w.values()) value = static_cast<float>(random.normal());
  for (const BlockScale rule : {BlockScale::kAbsmax, BlockScale::kMinmax}) {
    const BlockRounding rounded = round_blocks(w, {.bits = 4, .block = 32, .scale = rule});
    for (std::size_t i = 0; i < w.rows(); ++i) {
      for (std::size_t j = 0; j < w.cols(); ++j) {
        const double scale = static_cast<double>(rounded.scales(i, j / 32));
        const double zero = rule == BlockScale::kMinmax ? static_cast<double>(rounded.zeros(i, j / 32)) : 8.0;
        const double value = (static_cast<double>(rounded.codes(i, j)) - zero) * scale;
        // Rounding the scale to float16 (2^-11) moves the end of the grid by up to 15 · 2^-11 steps, and the zero point
        // is rounded by half a step, which may clip an end value.
        const double steps = 0.5 + 15 * 0x1p-11 + (rule == BlockScale::kMinmax ? 0.5 : 0.0);
        EXPECT_LE(std::abs(value - static_cast<double>(w(i, j))), steps * scale);
      }
    }
  }
}

TEST(RoundBlocks, DoesNotDependOnThreadsNorOnTheStride) {
  Random random(4);
  Matrix<float> w(70, 50), inner(70, 41);
  for (float& value : w.values()) value = static_cast<float>(random.normal());
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t j = 0; j < 41; ++j) inner(i, j) = w(i, j + 3);
  const std::size_t threads = thread_count();
  set_thread_count(4);
  const BlockRounding strided = round_blocks(w.view().cols_slice(3, 41), {});
  set_thread_count(1);
  const BlockRounding dense = round_blocks(inner, {});
  set_thread_count(threads);
  EXPECT_TRUE(same_bits(strided.scales.values(), dense.scales.values()));
  EXPECT_TRUE(std::equal(dense.codes.values().begin(), dense.codes.values().end(), strided.codes.values().begin()));
}

TEST(RoundBlocks, BadInputIsNamed) {
  Matrix<float> w(2, 70);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)round_blocks(w, {.bits = 1}); }, "2 to 8 bits", "1"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)round_blocks({}, {}); }, "empty"));
  w(1, 66) = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(throws_with<NumericalError>([&] { (void)round_blocks(w, {}); }, "row 1", "column 66", "inf"));
  w(1, 66) = 3e6f;
  for (const BlockScale rule : kRules)
    EXPECT_TRUE(
        throws_with<NumericalError>([&] { (void)round_blocks(w, {.scale = rule}); }, "row 1", "column 64", "float16"));
  w(1, 66) = 3e38f;
  w(1, 67) = -3e38f;  // the difference overflows float
  EXPECT_TRUE(throws_with<NumericalError>([&] { (void)round_blocks(w, {.scale = BlockScale::kMinmax}); }, "float16"));
}

}  // namespace
}  // namespace nibble::quant
