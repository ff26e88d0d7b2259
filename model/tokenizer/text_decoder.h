#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/token_id.h"
#include "model/tokenizer/normalize/normalizer.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Ids to text. Immutable: threads may share it. Where tokens stand for single bytes the text may be invalid UTF-8: the
/// bytes are given as they are (Hugging Face puts U+FFFD there).
class TextDecoder {
 public:
  /// Applies spec.decoder to spec.tokens; in a byte-level decoder added tokens stand for their contents. `spec` must
  /// outlive this. Added tokens that are found in normalised text stand for themselves as `normalizer` leaves them, as
  /// in Hugging Face's tokenizers. Throws FormatError for an order of steps that is not supported.
  TextDecoder(const TokenizerSpec& spec, const Normalizer& normalizer);
  ~TextDecoder();

  /// Requires ids below the number of tokens. Throws FormatError as require_bounded_growth() does.
  std::string decode(std::span<const TokenId> ids) const;
  /// Bytes of text that a token stands for, 0 for special tokens.
  std::size_t byte_length(TokenId id) const { return is_special_[id] ? 0 : text_[id].size(); }

 private:
  class Step;
  std::string decode_token(TokenId id, bool is_first) const;

  const TokenizerSpec& spec_;
  std::vector<Step> token_steps_;  // for each token
  std::vector<Step> text_steps_;   // for the whole text: StripStep and ReplaceStep
  std::vector<bool> is_added_;
  std::vector<bool> is_special_;
  std::vector<std::string> text_;                        // of each token, not at the start of a text
  std::unordered_map<TokenId, std::string> normalized_;  // added tokens as they are found
  bool first_differs_ = false;                           // the first token may have another text
  bool all_first_ = false;                               // so may those behind it, as long as there is no text
};

}  // namespace nibble::model
