#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/tokenizer/utf8.h"

namespace nibble::model {

/// What GPT-2's pattern tells apart: \p{L}, \p{N}, \s (White_Space), and everything else.
enum class CharClass : std::uint8_t { kOther, kLetter, kNumber, kSpace };

constexpr CharClass ascii_class(unsigned char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  if (c == ' ' || (c >= '\t' && c <= '\r')) return CharClass::kSpace;
  return CharClass::kOther;
}

constexpr std::array<CharClass, 128> kAsciiClass = [] {
  std::array<CharClass, 128> table{};
  for (std::size_t c = 0; c < table.size(); ++c) table[c] = ascii_class(static_cast<unsigned char>(c));
  return table;
}();

/// The class of any code point, by PCRE2's Unicode tables (read out once, at the first call). Thread-safe.
CharClass unicode_class(char32_t code_point);

/// Letters, marks, digits, connectors: \w by Unicode's rules (UTS #18). Thread-safe.
bool is_word_character(char32_t code_point);

struct ClassifiedChar {
  CharClass char_class;
  std::size_t length;  // in bytes
};

/// The character at text[pos]. Requires valid UTF-8 and pos < text.size().
inline ClassifiedChar classify(std::string_view text, std::size_t pos) {
  const auto byte = static_cast<unsigned char>(text[pos]);
  if (byte < 0x80) return {kAsciiClass[byte], 1};
  const Utf8Char c = decode_utf8(text, pos);
  return {unicode_class(c.code_point), c.length};
}

}  // namespace nibble::model
