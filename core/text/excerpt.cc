#include "core/text/excerpt.h"

#include <fmt/format.h>

#include "core/text/utf8.h"

namespace nibble {

std::string excerpt(std::string_view text, std::size_t longest) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto [character, length] = decode_utf8(text, at);
    const std::size_t bytes = length == 0 ? 1 : length;
    if (at + bytes > longest) return result + "…";
    const bool is_control = character < 0x20 || character == 0x7F;
    if (length == 0 || is_control) {
      result += '?';
    } else {
      result += text.substr(at, bytes);
    }
    at += bytes;
  }
  return result;
}

std::string in_quotes(std::string_view text, std::size_t longest) {
  return fmt::format("'{}'", excerpt(text, longest));
}

}  // namespace nibble
