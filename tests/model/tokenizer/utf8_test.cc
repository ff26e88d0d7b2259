#include "model/tokenizer/utf8.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "model/tokenizer/words/byte_alphabet.h"
#include "model/tokenizer/words/byte_tokens.h"

namespace nibble::model {
namespace {

TEST(Utf8, EveryCodePointDecodesToItself) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char decoded = decode_utf8(text, 0);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(valid_utf8_prefix(text), text.size());
  }
}

TEST(Utf8, OverlongSurrogateTruncatedAndTooLargeFormsAreInvalid) {
  for (const std::string_view text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                                      "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFF", "\xC3",
                                      "\xE2\x82", "\xF0\x9F\x98", "\xC3\x28", "\xE2\x28\xA1", "\xE2\x82\x28"}) {
    EXPECT_EQ(decode_utf8(text, 0).length, 0u) << testing::PrintToString(text);
  }
}

TEST(Utf8, StretchesAlternateAndCoverTheText) {
  std::vector<std::string> stretches;
  for_each_utf8_stretch(
      "\xFF\xFEtwelve bytes\xE2\x82é\xC3",
      [&](std::string_view valid) { stretches.push_back(fmt::format("+{}", valid)); },
      [&](std::string_view invalid) { stretches.push_back(fmt::format("-{}", invalid)); });
  EXPECT_EQ(stretches, (std::vector<std::string>{"-\xFF\xFE", "+twelve bytes", "-\xE2\x82", "+é", "-\xC3"}));
}

TEST(ByteAlphabet, SpellsBytesAsGpt2Does) {
  EXPECT_EQ(spell_bytes(" the\n"), "ĠtheĊ");
  EXPECT_EQ(spell_bytes("é"), "Ã©");
  EXPECT_EQ(spell_bytes(std::string_view("\0\xAD\x7F", 3)), "ĀŃġ");
}

TEST(ByteAlphabet, EveryByteComesBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(unspell_bytes(spell_bytes(bytes)), bytes);
}

TEST(ByteAlphabet, OtherCharactersAreNotSpellings) {
  for (const char* text : {" ", "a b", "\n", "▁", "ń", "中", "\x80"})
    EXPECT_EQ(unspell_bytes(text), std::nullopt) << text;
}

TEST(ByteTokens, AreUpperCaseHexadecimal) {
  EXPECT_EQ(byte_token(10), "<0x0A>");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_of_token(byte_token(static_cast<std::uint8_t>(byte))), byte);
  }
  for (const char* token : {"<0x0a>", "<0x0>", "0x0A", "<0x0A", "<0xGG>", "<0x0A>>", ""}) {
    EXPECT_EQ(byte_of_token(token), std::nullopt) << token;
  }
}

}  // namespace
}  // namespace nibble::model
