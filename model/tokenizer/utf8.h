#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/text/utf8.h"

namespace nibble::model {

/// Start of the character before `pos`, or `pos` - 1 where that is not UTF-8. Requires pos > 0.
std::size_t previous_character(std::string_view text, std::size_t pos);

/// Appends the UTF-8 form of a code point that is not a surrogate.
void append_utf8(std::string& text, char32_t code_point);

/// Length of the longest valid prefix of `text`.
std::size_t valid_utf8_prefix(std::string_view text);

/// Cuts `text` into stretches of valid UTF-8 and runs of bytes that are not, in order: on_valid(stretch),
/// on_invalid(run). Neither sees an empty piece.
template <class OnValid, class OnInvalid>
void for_each_utf8_stretch(std::string_view text, OnValid&& on_valid, OnInvalid&& on_invalid) {
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    if (valid > 0) on_valid(text.substr(0, valid));
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size() && decode_utf8(text, invalid).length == 0) ++invalid;
    if (invalid > 0) on_invalid(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

}  // namespace nibble::model
