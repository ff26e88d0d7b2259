#include "model/tokenizer/words/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

constexpr std::size_t kOwnCharacter = 256;
constexpr std::size_t kAlphabetEnd = 256 + 68;

constexpr bool is_printable(std::size_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, kAlphabetEnd> byte{};  // -1: not a character of the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  std::size_t next = kOwnCharacter;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::size_t character = is_printable(byte) ? byte : next++;
    alphabet.character[byte] = static_cast<char32_t>(character);
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size());
  for (const char byte : bytes) append_utf8(spelling, kAlphabet.character[static_cast<std::uint8_t>(byte)]);
  return spelling;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (std::size_t pos = 0; pos < spelling.size();) {
    const Utf8Char c = decode_utf8(spelling, pos);
    if (c.length == 0 || c.code_point >= kAlphabetEnd || kAlphabet.byte[c.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.code_point]));
    pos += c.length;
  }
  return bytes;
}

}  // namespace nibble::model
