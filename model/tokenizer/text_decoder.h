#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizer/spec.h"
#include "model/tokenizer/token_id.h"

namespace nibble::model {

/// Ids to text. Immutable: threads may share it. Where tokens stand for single bytes the text may be invalid UTF-8: the
/// bytes are given as they are (Hugging Face puts U+FFFD there).
class TextDecoder {
 public:
  /// Applies spec.decoder to spec.tokens; in a byte-level decoder added tokens stand for their contents. `spec` must
  /// outlive this. Throws FormatError for an order of steps that is not supported.
  explicit TextDecoder(const TokenizerSpec& spec);
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
  std::vector<std::string> text_;  // of each token, not at the start of a text
  bool first_differs_ = false;     // the first token may have another text
};

}  // namespace nibble::model
