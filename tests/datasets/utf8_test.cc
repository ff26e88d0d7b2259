#include "datasets/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace nibble::datasets {
namespace {

std::string encode(unsigned code_point) {
  const auto c = [](unsigned byte) { return static_cast<char>(byte); };
  if (code_point < 0x80) return {c(code_point)};
  if (code_point < 0x800) return {c(0xC0 | code_point >> 6), c(0x80 | (code_point & 63))};
  if (code_point < 0x10000)
    return {c(0xE0 | code_point >> 12), c(0x80 | (code_point >> 6 & 63)), c(0x80 | (code_point & 63))};
  return {c(0xF0 | code_point >> 18), c(0x80 | (code_point >> 12 & 63)), c(0x80 | (code_point >> 6 & 63)),
          c(0x80 | (code_point & 63))};
}

TEST(Utf8, EveryScalarValueIsValidAndEverySurrogateIsNot) {
  for (unsigned code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    ASSERT_EQ(first_invalid_utf8(encode(code_point)).has_value(), surrogate) << code_point;
  }
  EXPECT_EQ(first_invalid_utf8(encode(0x110000)), 0u);
  EXPECT_EQ(first_invalid_utf8(""), std::nullopt);
}

TEST(Utf8, NoTwoByteSequenceIsAcceptedThatNoScalarValueHas) {
  std::size_t valid = 0;
  for (unsigned first = 0x80; first < 0x100; ++first)
    for (unsigned second = 0; second < 0x100; ++second)
      valid += first_invalid_utf8(std::string{static_cast<char>(first), static_cast<char>(second)}) ? 0u : 1u;
  EXPECT_EQ(valid, 0x800u - 0x80u);
}

TEST(Utf8, NoThreeByteSequenceIsAcceptedThatNoScalarValueHas) {
  std::size_t valid = 0;
  for (unsigned lead = 0xE0; lead < 0x100; ++lead)
    for (unsigned second = 0x80; second < 0x100; ++second)
      for (unsigned third = 0x80; third < 0x100; ++third) {
        const char text[] = {static_cast<char>(lead), static_cast<char>(second), static_cast<char>(third)};
        valid += first_invalid_utf8({text, 3}) ? 0u : 1u;
      }
  EXPECT_EQ(valid, 0x10000u - 0x800u - 0x800u);
}

TEST(Utf8, PositionOfTheFirstBadByteIsFoundAtEveryOffset) {
  for (std::size_t offset = 0; offset < 40; ++offset) {
    const std::string before = std::string(offset, 'a');
    EXPECT_EQ(first_invalid_utf8(before + "\xFF tail of text"), offset);
    EXPECT_EQ(first_invalid_utf8(before + "\x80"), offset);
    EXPECT_EQ(first_invalid_utf8(before + "\xC0\xAF"), offset) << "overlong";
    EXPECT_EQ(first_invalid_utf8(before + "\xF4\x90\x80\x80"), offset) << "beyond U+10FFFF";
    EXPECT_EQ(first_invalid_utf8(before + "\xE2\x82"), offset) << "cut off at the end";
    EXPECT_EQ(first_invalid_utf8(before + "\xE2\x82\xAC" + before), std::nullopt);
  }
}

}  // namespace
}  // namespace nibble::datasets
