#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace nibble::model {

/// A token that is recognised in the text itself, before anything is normalised, cut or merged.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // control, not text
  bool left_strip = false;   // takes the white space before it along
  bool right_strip = false;  // and after it
  bool single_word = false;  // not beside a letter, a number or '_'
  bool normalized = false;   // looked for, normalised itself, in the normalised text
};

/// Finds added tokens in a text: the longest at the leftmost place, none overlapping.
class AddedTokenFinder {
 public:
  /// Looks for the `content`s, none of them empty, no two alike.
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  /// Cuts `text` into added tokens and the text between them, in order; no piece is empty. `id` is empty for text.
  /// Cost O(text · longest content).
  void split(std::string_view text,
             const std::function<void(std::string_view piece, std::optional<TokenId> id)>& on_piece) const;

 private:
  struct Match {
    const AddedToken* token = nullptr;
    std::size_t end = 0;
  };
  Match longest_match(std::string_view text, std::size_t begin) const;

  std::vector<AddedToken> tokens_;
  // A trie: node 0 is the root, child_[node << 8 | byte] the next node, token_at_[node] the token that ends there.
  std::unordered_map<std::uint64_t, std::uint32_t> child_;
  std::vector<std::optional<std::size_t>> token_at_;
  std::array<bool, 256> starts_{};  // bytes that some content starts with
};

}  // namespace nibble::model
