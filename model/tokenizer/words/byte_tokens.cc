#include "model/tokenizer/words/byte_tokens.h"

#include <fmt/format.h>

namespace nibble::model {
namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

}  // namespace

std::string byte_token(std::uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<std::uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const std::size_t high = kDigits.find(token[3]);
  const std::size_t low = kDigits.find(token[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

}  // namespace nibble::model
