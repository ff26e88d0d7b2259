#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/decoder.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// What a tokenizer's files say, checked: every id below has a token.
struct TokenizerSpec {
  /// The tokens `left` and `right`, side by side, become `merged`. Earlier merges go first.
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId merged;
  };

  std::string where;                                    // the files, for messages
  std::vector<std::string> tokens;                      // as spelled in the file, by id; no holes
  std::unordered_map<std::string_view, TokenId> id_of;  // of the model's own tokens (not the ones only added)
  std::vector<Merge> merges;
  bool ignore_merges = false;      // a word that is a token is not merged
  bool byte_fallback = false;      // characters that are no tokens become <0x00> … <0xFF>
  std::optional<TokenId> unknown;  // or else this
  bool fuse_unknown = false;       // one for several in a row
  std::vector<AddedToken> added;   // by id
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<DecoderStep> decoder;
  std::optional<TokenId> added_bos;
  std::optional<TokenId> eos;

  TokenizerSpec() = default;
  TokenizerSpec(TokenizerSpec&&) = default;  // not copied: id_of refers to tokens
  TokenizerSpec& operator=(TokenizerSpec&&) = default;
};

/// Hash of everything in the spec that decides how text becomes ids.
std::string fingerprint(const TokenizerSpec& spec);

}  // namespace nibble::model
