#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {

/// Turns generated tokens into text piece by piece. A token may stand for part of a character: such bytes are held back
/// until the character is complete, and bytes that can no longer become one show as U+FFFD. Special tokens (BOS, EOS)
/// leave no text. The pieces together are what decoding all tokens at once gives.
class TextStream {
 public:
  /// The stream continues `prompt`, whose own text is not part of it.
  TextStream(const model::Tokenizer& tokenizer, std::span<const TokenId> prompt);
  /// The text that `id` completes, maybe none.
  std::string push(TokenId id);
  /// What is left at the end: U+FFFD for an unfinished character.
  std::string finish();

 private:
  const model::Tokenizer& tokenizer_;
  // The last tokens. Decoding depends on what stands before (Llama-2 style tokenizers drop the first blank of a text),
  // so a token is decoded together with a few before it.
  std::vector<TokenId> window_;
  std::size_t shown_ = 0;  // bytes of the window's text that are out already
};

}  // namespace nibble::cli
