#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::model {

/// SentencePiece's tokens for single bytes: "<0x00>" … "<0xFF>".
std::string byte_token(std::uint8_t byte);
/// The byte of such a token (upper-case digits), empty for any other token.
std::optional<std::uint8_t> byte_of_token(std::string_view token);

}  // namespace nibble::model
