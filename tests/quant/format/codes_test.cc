#include "quant/format/codes.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

std::vector<std::uint8_t> random_codes(std::size_t count, unsigned bits, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint8_t> codes(count);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(1u << bits));
  return codes;
}

// The definition, bit by bit: bit b of code j is bit j·bits + b of the stream.
std::vector<std::byte> packed_by_the_definition(const std::vector<std::uint8_t>& codes, unsigned bits) {
  std::vector<std::byte> row((codes.size() * bits + 7) / 8);
  for (std::size_t j = 0; j < codes.size(); ++j)
    for (unsigned b = 0; b < bits; ++b)
      if (codes[j] >> b & 1) row[(j * bits + b) / 8] |= std::byte{1} << ((j * bits + b) % 8);
  return row;
}

class PackedCodes : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(EveryWidth, PackedCodes, testing::Range(1u, 9u));

TEST_P(PackedCodes, FollowTheDefinitionAndRoundTripAtEverySize) {
  const unsigned bits = GetParam();
  for (std::size_t count = 0; count <= 70; ++count) {
    SCOPED_TRACE(testing::Message() << count << " codes of " << bits << " bits, seed " << count);
    const auto codes = random_codes(count, bits, count);
    const auto expected = packed_by_the_definition(codes, bits);
    ASSERT_EQ(packed_row_bytes(count, bits), expected.size());
    std::vector<std::byte> row(expected.size(), std::byte{0xA5});  // padding must be overwritten with zeros
    pack_codes(codes, bits, row);
    ASSERT_EQ(row, expected);
    std::vector<std::uint8_t> back(count, 0xEE);
    unpack_codes(row, bits, back);
    ASSERT_EQ(back, codes);
  }
}

TEST_P(PackedCodes, IgnoreWhatLiesInThePadding) {
  const unsigned bits = GetParam();
  const auto codes = random_codes(3, bits, 1);
  auto row = packed_by_the_definition(codes, bits);
  if (3 * bits % 8 != 0) row.back() |= std::byte{0x80};
  std::vector<std::uint8_t> back(3);
  unpack_codes(row, bits, back);
  EXPECT_EQ(back, codes);
}

TEST(PackedCodesValues, AreRefusedWhenTheyDoNotFit) {
  for (unsigned bits = 1; bits <= 7; ++bits) {
    std::vector<std::uint8_t> codes(20);
    codes[17] = static_cast<std::uint8_t>(1u << bits);
    std::vector<std::byte> row(packed_row_bytes(20, bits));
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { pack_codes(codes, bits, row); }, "index 17", "does not fit"));
  }
}

TEST(PackedCodesSizes, AreChecked) {
  std::vector<std::uint8_t> codes(5);
  std::vector<std::byte> row(3);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { pack_codes(codes, 4, std::span(row).first(2)); },
                                                 "5 codes of 4 bits fill 3 bytes, got 2"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { unpack_codes(row, 8, codes); }, "fill 5 bytes, got 3"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { unpack_codes(row, 0, codes); }, "1 to 8 bits, got 0"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { unpack_codes(row, 9, codes); }, "1 to 8 bits, got 9"));
}

// The layout that other tools must be able to write, in full: three bits cross byte borders.
TEST(PackedCodesLayout, OfThreeBitsIsOneLittleEndianStream) {
  const std::vector<std::uint8_t> codes{1, 2, 3, 4, 5};  // 001 010 011 100 101, first code in the lowest bits
  std::vector<std::byte> row(2);
  pack_codes(codes, 3, row);
  EXPECT_EQ(row[0], std::byte{0b11'010'001});
  EXPECT_EQ(row[1], std::byte{0b0'101'100'0});
}

}  // namespace
}  // namespace nibble::quant
