#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble {

/// The bytes that `text` stands for (RFC 4648, section 4: with padding, without line ends); empty where it stands for
/// none.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace nibble
