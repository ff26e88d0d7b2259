#include "model/tokenizer/utf8.h"

#include <algorithm>
#include <cstring>

namespace nibble::model {

std::size_t previous_character(std::string_view text, std::size_t pos) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, pos); ++length) {
    if (decode_utf8(text, pos - length).length == length) return pos - length;
  }
  return pos - 1;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - pos >= sizeof eight) {  // eight ASCII bytes at a time
      std::memcpy(&eight, text.data() + pos, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        pos += sizeof eight;
        continue;
      }
    }
    const std::size_t length = decode_utf8(text, pos).length;
    if (length == 0) return pos;
    pos += length;
  }
  return pos;
}

}  // namespace nibble::model
