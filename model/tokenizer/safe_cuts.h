#pragma once

#include <string_view>

#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/spec.h"

namespace nibble::model {

/// Llama-2 style tokenizers merge the whole text as one word. If no merge joins something with a '▁' (U+2581, a space)
/// to its right, pieces between such places merge independently: the ids are the same, but short pieces can be
/// remembered. Finds out from the merges whether that is so.
class SafeCuts {
 public:
  SafeCuts(const TokenizerSpec& spec, bool byte_level);
  bool cuts_before_spaces() const { return cuts_before_spaces_; }
  /// Cuts `word` before each '▁' that does not follow another one, or not at all.
  void split(std::string_view word, const WordSink& on_piece) const;

 private:
  bool cuts_before_spaces_;
};

}  // namespace nibble::model
