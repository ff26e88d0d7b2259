#pragma once

#include <array>
#include <bitset>
#include <functional>
#include <span>
#include <string_view>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Some tokenizers merge a whole text as one word. Two neighbouring characters that stand side by side in no token that
/// merges make can never be in one token, so the pieces on both sides merge independently: the ids are the same, but
/// short pieces can be remembered, and merge in less time. Where no token has something and then a '▁' (U+2581, a
/// space), as in Llama 2's vocabulary, cuts are made before spaces only: such pieces come again more often.
class SafeCuts {
 public:
  /// `byte_level`: see Bpe; no cuts are made then.
  SafeCuts(const TokenizerSpec& spec, bool byte_level);
  bool makes_cuts() const { return kind_ != Kind::kNone; }
  /// Cuts `word` before each '▁' that does not follow another one, or wherever it is safe, or not at all.
  void split(std::string_view word, const std::function<void(std::string_view piece)>& on_piece) const;

 private:
  enum class Kind { kNone, kBeforeSpaces, kBetweenPairs };
  void add_pairs(std::string_view token);
  std::size_t next_cut(std::string_view text) const;
  std::size_t next_pair_cut(std::string_view text) const;
  static std::size_t slot_of(char32_t left, char32_t right) {
    return ((left * 0x9E3779B1u) ^ (right * 0x85EBCA77u)) >> 16;
  }

  Kind kind_ = Kind::kNone;
  std::bitset<65536> pairs_;              // hashed: a pair that is not here is in no token
  std::array<bool, 128> ascii_tokens_{};  // characters that are tokens
  bool space_is_token_ = false;
};

}  // namespace nibble::model
