#pragma once

#include <memory>

#include "model/tokenizer/spec.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// The tokenizer that a spec describes: text → added tokens → normalizer → added tokens in the normalised text →
/// pre-tokenizer → the model → ids. Throws FormatError for a spec that contradicts itself (see check()), patterns that
/// do not compile, and orders of steps that are not supported.
std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec);

}  // namespace nibble::model
