#include "core/text/excerpt.h"

#include <fmt/format.h>

#include "core/text/utf8.h"

namespace nibble {
namespace {

// Those of the second set too: terminals begin their own sequences with U+009B.
bool is_control(char32_t character) { return character < 0x20 || (character >= 0x7F && character <= 0x9F); }

void append_printable(std::string_view character, bool replaced, std::string& result) {
  result += replaced ? "?" : character;
}

}  // namespace

std::string excerpt(std::string_view text, std::size_t longest) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto [character, length] = decode_utf8(text, at);
    const std::size_t bytes = length == 0 ? 1 : length;
    if (at + bytes > longest) return result + "…";
    append_printable(text.substr(at, bytes), length == 0 || is_control(character), result);
    at += bytes;
  }
  return result;
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto [character, length] = decode_utf8(text, at);
    const std::size_t bytes = length == 0 ? 1 : length;
    append_printable(text.substr(at, bytes), length == 0 || (is_control(character) && character != '\n'), result);
    at += bytes;
  }
  return result;
}

std::string in_quotes(std::string_view text, std::size_t longest) {
  return fmt::format("'{}'", excerpt(text, longest));
}

}  // namespace nibble
