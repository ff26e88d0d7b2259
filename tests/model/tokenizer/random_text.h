#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/random.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model::test {

/// `pieces` random characters of the kinds that cutting into words cares about: letters, digits, contractions, spaces
/// of all sorts, other scripts, combining marks, emoji and any code points at all.
inline std::string random_text(Random& random, std::size_t pieces) {
  constexpr std::array<std::string_view, 40> kPieces{
      "a",      "Z",      "'s",     "'t",     "'re",    "'ll",    "'S",         "'",          "7",      "42",
      " ",      " ",      "  ",     "\n",     "\r\n",   "\t",     ".",          "!?",         "_",      "<",
      "\u00A0", "\u0085", "\u3000", "\u2003", "\u200B", "\u2028", "\u180E",     "\u00E9",     "\u00DF", "\u4E2D",
      "\u0416", "\u0301", "\u0663", "\u00BD", "\u2167", "\u017F", "\U0001F600", "\U00010400", "\u201C", "\uFFFD"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) {
    if (random.below(8) > 0) {
      text += kPieces[random.below(kPieces.size())];
      continue;
    }
    const auto code_point = static_cast<char32_t>(random.below(0x110000));
    if (code_point < 0xD800 || code_point > 0xDFFF) append_utf8(text, code_point);
  }
  return text;
}

inline std::string random_bytes(Random& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(static_cast<unsigned char>(random.below(256)));
  return bytes;
}

}  // namespace nibble::model::test
