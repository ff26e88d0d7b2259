#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/spec.h"
#include "model/tokenizer/words/byte_ids.h"
#include "model/tokenizer/words/merge_table.h"
#include "model/tokenizer/words/piece_merges.h"
#include "model/tokenizer/words/trie.h"
#include "model/tokenizer/words/word_model.h"

namespace nibble::model {

/// SentencePiece's BPE (Kudo and Richardson 2018; see PieceMerges). User-defined pieces are found first, the longest at
/// each place, and merge with nothing. What no piece covers becomes bytes or the unknown token, one for several in a
/// row.
class ScoredBpe : public WordModel {
 public:
  /// `spec` must outlive this. Throws FormatError as piece_merges() does.
  explicit ScoredBpe(const TokenizerSpec& spec);

  /// Cost O(n log n) for n bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const override;

 private:
  TokenId symbol_at(std::string_view text, std::size_t& length) const;

  const TokenizerSpec& spec_;
  ByteIds byte_ids_;
  PieceMerges pieces_;
  MergeTable merges_;
  Trie user_defined_;
  TokenId no_piece_;      // the symbol of a character that is no piece nor half of one
  TokenId first_frozen_;  // first_frozen_ + id: a user-defined piece
};

}  // namespace nibble::model
