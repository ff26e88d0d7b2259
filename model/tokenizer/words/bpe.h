#pragma once

#include <string_view>
#include <vector>

#include "model/tokenizer/spec.h"
#include "model/tokenizer/words/byte_ids.h"
#include "model/tokenizer/words/merge_table.h"
#include "model/tokenizer/words/word_model.h"

namespace nibble::model {

/// Byte-pair encoding (Sennrich et al. 2016) by a list of merges: of all neighbours that have a merge, the pair with
/// the earliest merge (leftmost of equals) becomes one token, until none has. Without an unknown token what the
/// vocabulary lacks is left out, as Hugging Face's tokenizers do (Falcon's lacks 28 bytes).
class Bpe : public WordModel {
 public:
  /// `spec` must outlive this. `byte_level`: words are bytes, and the vocabulary spells them in GPT-2's byte alphabet.
  Bpe(const TokenizerSpec& spec, bool byte_level);

  /// Cost O(n log n) for n bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const override;

 private:
  void start_with_bytes(std::string_view word, Scratch& scratch) const;
  void start_with_characters(std::string_view word, Scratch& scratch) const;

  const TokenizerSpec& spec_;
  bool byte_level_;
  ByteIds byte_ids_;
  MergeTable merges_;
};

}  // namespace nibble::model
