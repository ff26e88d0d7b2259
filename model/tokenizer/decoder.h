#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// Tokens are spelled in GPT-2's byte alphabet.
struct ByteLevelDecoderStep {};
/// Tokens <0x00> … <0xFF> are bytes.
struct ByteFallbackStep {};
/// The tokens become one text; later steps see that.
struct FuseStep {};
/// Removes up to `start` times `content` from the front and up to `stop` times from the end.
struct StripStep {
  std::string content;
  std::size_t start = 0;
  std::size_t stop = 0;
  std::string apply(std::string_view text) const;
};
/// Tokens spell spaces as `replacement`; those of the text's first token were put there by the encoder.
struct MetaspaceDecoderStep {
  std::string replacement;
  bool drop_leading = true;
};
using DecoderStep =
    std::variant<ByteLevelDecoderStep, ByteFallbackStep, FuseStep, StripStep, MetaspaceDecoderStep, ReplaceStep>;

/// Ids to text. Immutable: threads may share it. Where tokens stand for single bytes the text may be invalid UTF-8: the
/// bytes are given as they are (Hugging Face puts U+FFFD there).
class Decoder {
 public:
  /// `tokens` by id, as spelled in the file; added tokens stand for their contents. `where` names the origin in
  /// messages. Throws FormatError for an order of steps that is not supported.
  Decoder(const std::vector<DecoderStep>& steps, const std::vector<std::string>& tokens,
          const std::vector<AddedToken>& added, const std::string& where);

  /// Requires ids below the number of tokens. Throws FormatError as require_bounded_growth() does.
  std::string decode(std::span<const TokenId> ids) const;
  /// Bytes of text that a token stands for, 0 for special tokens.
  std::size_t byte_length(TokenId id) const { return is_special_[id] ? 0 : text_[id].size(); }

 private:
  std::vector<std::string> text_;  // of each token
  std::vector<bool> is_special_;
  std::vector<DecoderStep> text_steps_;  // for the whole text: StripStep and ReplaceStep
  bool drop_leading_spaces_ = false;     // of the first token
};

}  // namespace nibble::model
