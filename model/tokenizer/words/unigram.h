#pragma once

#include <string_view>
#include <vector>

#include "model/tokenizer/spec.h"
#include "model/tokenizer/words/byte_ids.h"
#include "model/tokenizer/words/trie.h"
#include "model/tokenizer/words/word_model.h"

namespace nibble::model {

/// The cut of a word with the greatest sum of its tokens' scores (Kudo 2018), found from left to right; of equal sums
/// the one whose last token is longest. A character that is no token scores 10 below the lowest token; several in a row
/// are one unknown token, or their bytes.
class Unigram : public WordModel {
 public:
  /// `spec` must outlive this. With spec.sentencepiece_arithmetic, as the sentencepiece library: sums in float, control
  /// and unused pieces not found, user-defined ones preferred to all others. Else as Hugging Face's tokenizers: sums in
  /// double, every token found.
  explicit Unigram(const TokenizerSpec& spec);

  /// Cost O(n · longest token) for n bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const override;

 private:
  template <class Real>
  void find_best(std::string_view word, std::vector<Scratch::Arrival<Real>>& arrivals) const;
  template <class Real>
  void append(std::string_view word, const std::vector<Scratch::Arrival<Real>>& arrivals,
              std::vector<TokenId>& ids) const;
  void append_unknown(std::string_view text, std::vector<TokenId>& ids) const;
  double score_of(TokenId id, std::size_t length) const;

  const TokenizerSpec& spec_;
  ByteIds byte_ids_;
  Trie trie_;
  double unknown_score_ = 0;
  float max_score_ = 0;
  std::size_t longest_ = 4;  // bytes of a token, or of a character
  TokenId unknown_;          // spec.unknown, or an id behind the vocabulary's
};

}  // namespace nibble::model
