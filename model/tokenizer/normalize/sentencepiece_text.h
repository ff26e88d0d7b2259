#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "model/tokenizer/normalize/charsmap.h"
#include "model/tokenizer/steps.h"
#include "model/tokenizer/words/trie.h"

namespace nibble::model {

/// SentencePiece's normalisation of a text (Kudo and Richardson 2018; normalizer.cc of the sentencepiece library): at
/// each place the longest user-defined text, else the longest rule, else the character, then spaces removed and spelled
/// as the step says. Bytes that are not UTF-8 become U+FFFD each, as there. Immutable: threads may share it.
class SentencePieceText {
 public:
  /// Throws FormatError naming `where` for a charsmap that is not one.
  SentencePieceText(const SentencePieceStep& step, const std::string& where);
  std::string apply(std::string_view text) const;

 private:
  struct Piece {
    std::size_t length;  // of the text it stands for
    std::string_view text;
  };
  Piece next(std::string_view text) const;

  SentencePieceStep step_;
  std::optional<Charsmap> charsmap_;
  Trie user_defined_;
  std::array<bool, 256> is_plain_{};  // ASCII that no rule or user-defined text starts with
};

}  // namespace nibble::model
