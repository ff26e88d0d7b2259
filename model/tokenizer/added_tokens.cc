#include "model/tokenizer/added_tokens.h"

#include <algorithm>

#include "model/tokenizer/char_class.h"

namespace nibble::model {
namespace {

/// Start of the character before `pos`, or `pos` - 1 where that is not UTF-8. Requires pos > 0.
std::size_t previous(std::string_view text, std::size_t pos) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, pos); ++length) {
    if (decode_utf8(text, pos - length).length == length) return pos - length;
  }
  return pos - 1;
}

bool has_class(std::string_view text, std::size_t pos, CharClass char_class) {
  const Utf8Char c = decode_utf8(text, pos);
  return c.length > 0 && classify(text, pos).char_class == char_class;
}

bool is_word_char(std::string_view text, std::size_t pos) {
  return text[pos] == '_' || has_class(text, pos, CharClass::kLetter) || has_class(text, pos, CharClass::kNumber);
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool word_before = begin > 0 && is_word_char(text, previous(text, begin));
  const bool word_after = end < text.size() && is_word_char(text, end);
  return !word_before && !word_after;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens) : tokens_(tokens), token_at_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::uint32_t node = 0;
    for (const char c : tokens_[i].content) {
      const std::uint64_t edge = std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
      const auto [child, is_new] = child_.try_emplace(edge, static_cast<std::uint32_t>(token_at_.size()));
      if (is_new) token_at_.emplace_back();
      node = child->second;
    }
    token_at_[node] = i;
    starts_[static_cast<unsigned char>(tokens_[i].content.front())] = true;
  }
}

AddedTokenFinder::Match AddedTokenFinder::longest_match(std::string_view text, std::size_t begin) const {
  Match match;
  std::uint32_t node = 0;
  for (std::size_t pos = begin; pos < text.size(); ++pos) {
    const auto child = child_.find(std::uint64_t{node} << 8 | static_cast<unsigned char>(text[pos]));
    if (child == child_.end()) break;
    node = child->second;
    if (token_at_[node]) match = {&tokens_[*token_at_[node]], pos + 1};
  }
  return match;
}

void AddedTokenFinder::split(
    std::string_view text,
    const std::function<void(std::string_view piece, std::optional<TokenId> id)>& on_piece) const {
  std::size_t done = 0;  // everything before was handed out
  std::size_t pos = 0;
  while (pos < text.size() && !tokens_.empty()) {
    if (!starts_[static_cast<unsigned char>(text[pos])]) {
      ++pos;
      continue;
    }
    const Match match = longest_match(text, pos);
    if (match.token == nullptr) {
      ++pos;
      continue;
    }
    std::size_t begin = pos;
    std::size_t end = pos = match.end;
    if (match.token->single_word && !stands_alone(text, begin, end)) continue;
    if (match.token->left_strip) {
      while (begin > done && has_class(text, previous(text, begin), CharClass::kSpace)) begin = previous(text, begin);
    }
    if (match.token->right_strip) {
      while (end < text.size() && has_class(text, end, CharClass::kSpace)) end += decode_utf8(text, end).length;
    }
    if (begin > done) on_piece(text.substr(done, begin - done), std::nullopt);
    on_piece(text.substr(begin, end - begin), match.token->id);
    pos = done = end;
  }
  if (done < text.size()) on_piece(text.substr(done), std::nullopt);
}

}  // namespace nibble::model
