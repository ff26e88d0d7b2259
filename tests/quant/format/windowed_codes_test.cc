#include "quant/format/windowed_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

std::vector<int> random_stream(const WindowedLayout& layout, std::uint64_t seed) {
  Random random(seed);
  std::vector<int> stream(layout.column_bits());
  for (int& bit : stream) bit = static_cast<int>(random.below(2));
  return stream;
}

// The definition, bit by bit: bit b of code i is bit i·bits + b of the stream.
std::vector<std::uint16_t> codes_by_the_definition(const WindowedLayout& layout, const std::vector<int>& stream) {
  std::vector<std::uint16_t> codes(layout.rows);
  for (std::size_t i = 0; i < layout.rows; ++i)
    for (unsigned b = 0; b < layout.window_bits; ++b)
      codes[i] = static_cast<std::uint16_t>(codes[i] | static_cast<unsigned>(stream[i * layout.bits + b]) << b);
  return codes;
}

std::vector<std::byte> packed_by_the_definition(const std::vector<int>& stream) {
  std::vector<std::byte> column((stream.size() + 7) / 8);
  for (std::size_t b = 0; b < stream.size(); ++b)
    if (stream[b] != 0) column[b / 8] |= std::byte{1} << (b % 8);
  return column;
}

// All codes of the one input of `layout`.
std::vector<std::uint16_t> unpacked(const WindowedLayout& layout, const std::vector<std::byte>& column) {
  Matrix<std::uint16_t> codes(layout.rows, 1);
  std::fill(codes.values().begin(), codes.values().end(), std::uint16_t{0xEEEE});
  unpack_window_block(layout, column, 0, 0, codes);
  return {codes.values().begin(), codes.values().end()};
}

struct Widths {
  unsigned bits, window_bits;
};

std::vector<Widths> every_width() {
  std::vector<Widths> all;
  for (unsigned bits = 1; bits <= kMostWindowStep; ++bits)
    for (unsigned window_bits = std::max(kLeastWindowBits, bits + 1); window_bits <= kMostWindowBits; ++window_bits)
      all.push_back({bits, window_bits});
  return all;
}

class WindowedCodes : public testing::TestWithParam<Widths> {
 protected:
  WindowedLayout layout(std::size_t rows, std::size_t cols = 1) const {
    return {.rows = rows, .cols = cols, .bits = GetParam().bits, .window_bits = GetParam().window_bits};
  }
};
INSTANTIATE_TEST_SUITE_P(EveryWidth, WindowedCodes, testing::ValuesIn(every_width()), [](const auto& width) {
  return "bits" + std::to_string(width.param.bits) + "window" + std::to_string(width.param.window_bits);
});

TEST_P(WindowedCodes, FollowTheDefinitionAndRoundTripAtEverySize) {
  for (std::size_t rows = 1; rows <= 70; ++rows) {
    SCOPED_TRACE(testing::Message() << rows << " rows, seed " << rows);
    const WindowedLayout sizes = layout(rows);
    sizes.check();
    const auto stream = random_stream(sizes, rows);
    const auto codes = codes_by_the_definition(sizes, stream);
    const auto expected = packed_by_the_definition(stream);
    ASSERT_EQ(sizes.column_bytes(), expected.size());
    std::vector<std::byte> column(expected.size(), std::byte{0xA5});  // padding must be overwritten with zeros
    pack_windows(sizes, codes, column);
    ASSERT_EQ(column, expected);
    ASSERT_EQ(unpacked(sizes, column), codes);
  }
}

TEST_P(WindowedCodes, OfAPartOfTheRowsAndInputs) {
  const WindowedLayout sizes = layout(37, 5);
  std::vector<std::byte> streams;
  std::vector<std::vector<std::uint16_t>> codes;
  for (std::size_t j = 0; j < sizes.cols; ++j) {
    const auto stream = random_stream(sizes, 100 + j);
    const auto column = packed_by_the_definition(stream);
    streams.insert(streams.end(), column.begin(), column.end());
    codes.push_back(codes_by_the_definition(sizes, stream));
  }
  ASSERT_EQ(streams.size(), sizes.bytes());
  for (std::size_t begin = 0; begin <= sizes.rows; begin += 3)
    for (std::size_t count = 0; begin + count <= sizes.rows; count += 5) {
      Matrix<std::uint16_t> block(count, 3);
      unpack_window_block(sizes, streams, begin, 2, block);
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < 3; ++j) ASSERT_EQ(block(i, j), codes[2 + j][begin + i]) << begin << "+" << i;
    }
}

TEST_P(WindowedCodes, IgnoreWhatLiesInThePadding) {
  const WindowedLayout sizes = layout(3);
  const auto stream = random_stream(sizes, 7);
  auto column = packed_by_the_definition(stream);
  for (std::size_t bit = stream.size(); bit < 8 * column.size(); ++bit) column.back() |= std::byte{1} << (bit % 8);
  EXPECT_EQ(unpacked(sizes, column), codes_by_the_definition(sizes, stream));
}

TEST_P(WindowedCodes, ThatDoNotOverlapAreRefused) {
  const WindowedLayout sizes = layout(20);
  const auto good = codes_by_the_definition(sizes, random_stream(sizes, 9));
  std::vector<std::byte> column(sizes.column_bytes());
  for (unsigned bit = 0; bit < sizes.window_bits; ++bit) {
    if (bit >= sizes.window_bits - sizes.bits && bit < sizes.bits) continue;  // no neighbour has it
    auto codes = good;
    codes[11] = static_cast<std::uint16_t>(codes[11] ^ 1u << bit);  // either its low or its high bits are a neighbour's
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { pack_windows(sizes, codes, column); }, "does not overlap",
                                                   bit < sizes.window_bits - sizes.bits ? "row 11" : "row 12"));
  }
  auto codes = good;
  codes[0] = static_cast<std::uint16_t>(codes[0] | 1u << sizes.window_bits);
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { pack_windows(sizes, codes, column); }, "row 0", "does not fit in"));
}

TEST(WindowedCodesSizes, AreChecked) {
  const WindowedLayout sizes{.rows = 5, .cols = 2, .bits = 2, .window_bits = 6};  // 14 bits: 2 bytes
  std::vector<std::uint16_t> codes(5);
  std::vector<std::byte> column(3);
  const auto refused = [](const auto& call, std::string_view text) {
    return test::throws_with<InvalidArgument>(call, text);
  };
  EXPECT_TRUE(refused([&] { pack_windows(sizes, codes, column); }, "fill 2 bytes, got 3"));
  EXPECT_TRUE(refused([&] { pack_windows(sizes, std::span(codes).first(4), column); }, "expected 5 codes, got 4"));
  Matrix<std::uint16_t> block(5, 2);
  EXPECT_TRUE(refused([&] { unpack_window_block(sizes, column, 0, 0, block); }, "2 streams of 2 bytes, got 3 bytes"));
  const std::vector<std::byte> streams(4);
  EXPECT_TRUE(refused([&] { unpack_window_block(sizes, streams, 0, 1, block); }, "2 inputs from input 1 on of 2"));
  EXPECT_TRUE(refused([&] { unpack_window_block(sizes, streams, 1, 0, block); }, "5 rows from row 1 on of 5"));
  EXPECT_TRUE(refused([&] { unpack_window_block(sizes, streams, 2, 0, block); }, "5 rows from row 2 on of 5"));
  EXPECT_TRUE(refused([&] { unpack_window_block(sizes, streams, ~std::size_t{0}, 0, block); }, "of 5"));
}

TEST(WindowedCodesLayout, RefusesWhatNoFileMayHave) {
  const auto refused = [](const WindowedLayout& layout, std::string_view text) {
    return test::throws_with<FormatError>([&] { layout.check(); }, text);
  };
  EXPECT_TRUE(refused({.rows = 0, .cols = 1}, "non-empty"));
  EXPECT_TRUE(refused({.rows = 1, .cols = 0}, "non-empty"));
  EXPECT_TRUE(refused({.rows = 1, .cols = 1, .bits = 2, .window_bits = 3}, "4 to 10, got 3"));
  EXPECT_TRUE(refused({.rows = 1, .cols = 1, .bits = 2, .window_bits = 11}, "4 to 10, got 11"));
  EXPECT_TRUE(refused({.rows = 1, .cols = 1, .bits = 0, .window_bits = 6}, "got 0"));
  EXPECT_TRUE(refused({.rows = 1, .cols = 1, .bits = 5, .window_bits = 6}, "got 5"));
  EXPECT_TRUE(refused({.rows = 1, .cols = 1, .bits = 4, .window_bits = 4}, "fewer than the 4 of a window"));
  EXPECT_TRUE(refused({.rows = ~std::size_t{0}, .cols = 1, .bits = 2, .window_bits = 6}, "overflows"));
  EXPECT_TRUE(
      refused({.rows = std::size_t{1} << 40, .cols = std::size_t{1} << 40, .bits = 2, .window_bits = 6}, "overflows"));
}

// The layout that other tools must be able to write, in full: the worked example of docs/formats.md.
TEST(WindowedCodesLayout, OfTwoBitsInWindowsOfFour) {
  const WindowedLayout layout{.rows = 4, .cols = 1, .bits = 2, .window_bits = 4};
  const std::vector<std::uint16_t> codes{0b01'10, 0b11'01, 0b00'11,
                                         0b10'00};  // each begins where the last one's half ends
  std::vector<std::byte> column(layout.column_bytes());
  pack_windows(layout, codes, column);
  ASSERT_EQ(column.size(), 2u);  // 4 · 2 + 2 = 10 bits
  EXPECT_EQ(column[0], std::byte{0b00'11'01'10});
  EXPECT_EQ(column[1], std::byte{0b10});
}

}  // namespace
}  // namespace nibble::quant
