#pragma once

#include <span>

#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// Whether two tokenizers mean the same text by `tokens`. Files of different kinds say the same in different words, so
/// fingerprints that differ prove nothing.
bool agree_on(std::span<const TokenId> tokens, const Tokenizer& a, const Tokenizer& b);

}  // namespace nibble::model
