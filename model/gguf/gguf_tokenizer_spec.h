#pragma once

#include "model/gguf/gguf_value.h"
#include "model/tokenizer/files/tokenizer_json_text.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// The tokenizer of make_gguf_tokenizer() as values, for tokenizer_json_text(). Throws FormatError as that does.
TokenizerSpec read_gguf_tokenizer(const GgufMetadata& metadata);

/// "bos_token", "eos_token", "unk_token" and "pad_token", as far as the metadata name them. Throws FormatError for ids
/// out of range.
NamedTokens gguf_special_tokens(const GgufMetadata& metadata);

}  // namespace nibble::model
