#include "model/tokenizer/split/added_tokens.h"

#include "model/tokenizer/split/char_class.h"

namespace nibble::model {
namespace {

bool is_space_at(std::string_view text, std::size_t pos) {
  return decode_utf8(text, pos).length > 0 && classify(text, pos).char_class == CharClass::kSpace;
}

bool is_word_char(std::string_view text, std::size_t pos) {
  const Utf8Char c = decode_utf8(text, pos);
  return c.length > 0 && is_word_character(c.code_point);
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool word_before = begin > 0 && is_word_char(text, previous_character(text, begin));
  const bool word_after = end < text.size() && is_word_char(text, end);
  return !word_before && !word_after;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens) : tokens_(tokens) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    trie_.insert(tokens_[i].content, static_cast<std::uint32_t>(i));
    starts_[static_cast<unsigned char>(tokens_[i].content.front())] = true;
  }
}

void AddedTokenFinder::split(
    std::string_view text,
    const std::function<void(std::string_view piece, std::optional<TokenId> id)>& on_piece) const {
  std::size_t done = 0;  // where the text begins that was not handed out
  for (std::size_t pos = 0; pos < text.size() && !tokens_.empty();) {
    const bool may_start = starts_[static_cast<unsigned char>(text[pos])];
    const Trie::Match match = may_start ? trie_.longest_prefix(text.substr(pos)) : Trie::Match{};
    if (match.length == 0) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[match.value];
    std::size_t begin = pos;
    std::size_t end = pos + match.length;
    pos = end;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.left_strip) {
      while (begin > done && is_space_at(text, previous_character(text, begin))) {
        begin = previous_character(text, begin);
      }
    }
    if (token.right_strip) {
      while (end < text.size() && is_space_at(text, end)) end += decode_utf8(text, end).length;
    }
    if (begin > done) on_piece(text.substr(done, begin - done), std::nullopt);
    on_piece(text.substr(begin, end - begin), token.id);
    done = end;
  }
  if (done < text.size()) on_piece(text.substr(done), std::nullopt);
}

}  // namespace nibble::model
