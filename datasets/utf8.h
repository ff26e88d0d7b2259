#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace nibble::datasets {

/// Byte position of the first byte that does not begin or continue a well-formed UTF-8 sequence (Unicode 15, table
/// 3-7: no overlong forms, no surrogates, nothing above U+10FFFF, nothing cut off at the end); empty when all is well.
/// Cost: one pass, eight bytes at a time over ASCII.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

}  // namespace nibble::datasets
