#pragma once

#include <memory>
#include <string>

#include "model/gguf/gguf_value.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// The tokenizer in the metadata of a GGUF file (`tokenizer.ggml.*`): byte-level BPE (`model` "gpt2", cut as `pre`
/// says) or SentencePiece's BPE (`model` "llama": scores, bytes as <0x00>, a space before the text if
/// `add_space_prefix`).
///
/// Control, unknown and user-defined tokens (`token_type` 3, 2, 4) are recognised in texts as they are, spaces being
/// spaces; behind that, user-defined ones merge as normal ones do. added_bos() is the BOS id
/// if `add_bos_token` says so, or says nothing and the model's kind adds one. As in llama.cpp, no Unicode
/// normalisation.
///
/// Throws FormatError naming key and file: other models ("t5", "bert", "rwkv", "none" …) and unknown `pre`, which are
/// refused by name; lists that are missing or of different lengths; merges of tokens that are not there; ids out of
/// range.
std::shared_ptr<const Tokenizer> make_gguf_tokenizer(const GgufMetadata& metadata);
/// Whether there is one at all: `tokenizer.ggml.model` is there, and not "none" or "no_vocab".
bool has_gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace nibble::model
