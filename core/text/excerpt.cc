#include "core/text/excerpt.h"

#include <fmt/format.h>

#include "core/text/utf8.h"

namespace nibble {
namespace {

// Those of the second set too: terminals begin their own sequences with U+009B.
bool is_control(char32_t character) { return character < 0x20 || (character >= 0x7F && character <= 0x9F); }

// Its whole characters among the first `longest` bytes, and "…" where there is more.
std::string without_controls(std::string_view text, std::size_t longest, bool keeps_lines) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto [character, length] = decode_utf8(text, at);
    const std::size_t bytes = length == 0 ? 1 : length;
    if (at + bytes > longest) return result + "…";
    const bool is_kept = length != 0 && (!is_control(character) || (keeps_lines && character == '\n'));
    result += is_kept ? text.substr(at, bytes) : "?";
    at += bytes;
  }
  return result;
}

}  // namespace

std::string excerpt(std::string_view text, std::size_t longest) { return without_controls(text, longest, false); }

std::string printable(std::string_view text) { return without_controls(text, std::string_view::npos, true); }

std::string in_quotes(std::string_view text, std::size_t longest) {
  return fmt::format("'{}'", excerpt(text, longest));
}

}  // namespace nibble
