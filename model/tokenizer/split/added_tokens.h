#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "model/tokenizer/steps.h"
#include "model/tokenizer/words/trie.h"

namespace nibble::model {

/// Finds added tokens in a text as Hugging Face's tokenizers do: the longest at the leftmost place. White space that
/// `right_strip` takes along is searched for further tokens all the same.
class AddedTokenFinder {
 public:
  /// Looks for the `content`s, none of them empty. Of tokens with the same content the first counts.
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  /// Cuts `text` into added tokens and the text between them; no piece is empty. `id` is empty for text. Cost O(text ·
  /// longest content).
  void split(std::string_view text,
             const std::function<void(std::string_view piece, std::optional<TokenId> id)>& on_piece) const;

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;                       // values are positions in tokens_
  std::array<bool, 256> starts_{};  // bytes that some content starts with
};

}  // namespace nibble::model
