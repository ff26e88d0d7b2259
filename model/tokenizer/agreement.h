#pragma once

#include <span>
#include <string_view>

#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// Whether two tokenizers mean the same text by `tokens`. Files of different kinds say the same in different words, so
/// fingerprints that differ prove nothing.
bool agree_on(std::span<const TokenId> tokens, const Tokenizer& a, const Tokenizer& b);

/// Throws InvalidArgument, "WHOSE has another tokenizer than the model", where `other` means another text by `tokens`
/// than the model's. `other` may be null: nothing is known of its text then.
void require_agreement(std::span<const TokenId> tokens, const Tokenizer& models, const Tokenizer* other,
                       std::string_view whose);

}  // namespace nibble::model
