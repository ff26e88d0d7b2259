#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf/gguf_value.h"
#include "model/tokenizer/spec.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// What a tokenizer's own files do not say.
struct GgufTokenizerFacts {
  std::size_t vocabulary = 0;       ///< rows of the embedding: ids behind the tokens' are filled up with unused ones
  std::optional<TokenId> bos, eos;  ///< of config.json: where the tokenizer names none
  std::vector<TokenId> stop_tokens = {};  ///< of config.json and generation_config.json: all ids that end a text
  /// Name and text; the one without a name first. Others become `tokenizer.chat_template.NAME`.
  std::vector<std::pair<std::string, std::string>> chat_templates;
};

/// Adds `tokenizer.*`: byte-level BPE as model "gpt2", SentencePiece's BPE as model "llama" with its scores, or, where
/// the source has a list of merges, a score of -rank for what a merge makes. `tokenizer.ggml.pre` is the first known
/// way of cutting that cuts a text with a bit of everything as the tokenizer does. Added tokens behind the vocabulary
/// are left out. The first two stop tokens besides the end of a text become `eot_token_id` and `eom_token_id`.
///
/// Throws InvalidArgument naming the part that GGUF cannot say: Unigram, a way of cutting or normalising of its own, a
/// space put before texts of byte-level BPE, two tokens spelled alike (llama.cpp aborts), tokens of texts behind the
/// vocabulary.
void add_gguf_tokenizer(GgufMetadata& metadata, const TokenizerSpec& spec, const GgufTokenizerFacts& facts);

/// What a user should know of it: an end of a text that is not named, ids that end one and have no key, added tokens
/// that the network has no row for, and prompts that llama.cpp gives other ids. Throws nothing that
/// add_gguf_tokenizer() does not.
std::vector<std::string> gguf_tokenizer_notes(const TokenizerSpec& spec, const GgufTokenizerFacts& facts);

/// `general.name` for a model called `name`: llama.cpp looks for "phi-3" in it, and then takes certain tokens for
/// granted (it aborts without them) and lets them swallow spaces. So the name says phi-3 where they are and do, and
/// nowhere else.
std::string gguf_model_name(std::string name, const TokenizerSpec& spec);

/// Throws InvalidArgument unless the tokenizer that `metadata` describe gives the same ids as `own` for a text with a
/// bit of everything.
void check_gguf_tokenizer(const GgufMetadata& metadata, const Tokenizer& own);

}  // namespace nibble::model
