#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::model {

/// GPT-2's byte alphabet: each of the 256 bytes has a printable character, which vocabularies of byte-level BPE spell
/// tokens with ("Ġthe" is " the"). Bytes 33-126, 161-172 and 174-255 are the characters of the same number; the other
/// 68, in order, are U+0100, U+0101, …

/// The bytes spelled in the alphabet.
std::string spell_bytes(std::string_view bytes);

/// The bytes that `spelling` stands for; empty if it has a character from outside the alphabet or is not UTF-8.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace nibble::model
