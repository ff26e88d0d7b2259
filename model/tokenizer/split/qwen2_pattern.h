#pragma once

#include <string_view>

namespace nibble::model {

/// How Qwen2's tokenizer cuts a text in NFC into words, as its own files publish it.
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace nibble::model
