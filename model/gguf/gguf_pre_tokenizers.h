#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::model {

/// What `tokenizer.ggml.pre` names: how a text is cut before byte-level BPE. Patterns (Oniguruma's syntax) are applied
/// one after the other, each to the words of the one before; what a pattern matches is a word, and so is what lies
/// between.
struct GgufPreTokenizer {
  std::string_view name;  ///< "llama-bpe"
  std::vector<std::string> patterns;
  bool ignore_merges = false;  ///< a word that is a token is not merged
  bool compose = false;  ///< texts are brought into NFC first, as the model's own tokenizer does (llama.cpp does not)
  bool add_bos = false;  ///< where `tokenizer.ggml.add_bos_token` says nothing
};

/// All that are known.
std::span<const GgufPreTokenizer> gguf_pre_tokenizers();
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);  ///< null for others

}  // namespace nibble::model
