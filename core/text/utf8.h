#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nibble {

struct Utf8Char {
  char32_t code_point = 0;
  std::size_t length = 0;  // in bytes; 0 where no valid sequence starts
};

/// The character that starts at text[pos], by the strict rules: no overlong forms, no surrogates, nothing above
/// U+10FFFF. Requires pos < text.size().
inline Utf8Char decode_utf8(std::string_view text, std::size_t pos) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[pos + i]); };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const std::size_t left = text.size() - pos;
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first >= 0xC2 && first < 0xE0 && left >= 2 && continues(1)) {
    return {((first & 0x1F) << 6) | (byte(1) & 0x3Fu), 2};
  }
  if ((first & 0xF0) == 0xE0 && left >= 3 && continues(1) && continues(2)) {
    const char32_t value = ((first & 0x0F) << 12) | ((byte(1) & 0x3Fu) << 6) | (byte(2) & 0x3Fu);
    if (value >= 0x800 && (value < 0xD800 || value > 0xDFFF)) return {value, 3};
  }
  if ((first & 0xF8) == 0xF0 && left >= 4 && continues(1) && continues(2) && continues(3)) {
    const char32_t value =
        ((first & 0x07) << 18) | ((byte(1) & 0x3Fu) << 12) | ((byte(2) & 0x3Fu) << 6) | (byte(3) & 0x3Fu);
    if (value >= 0x10000 && value <= 0x10FFFF) return {value, 4};
  }
  return {};
}

}  // namespace nibble
