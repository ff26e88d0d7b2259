#include "model/tokenizer/words/safe_cuts.h"

#include <algorithm>

#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

constexpr std::string_view kWordMark = "\u2581";
constexpr char32_t kSpaceCodePoint = 0x2581;

/// The first place > 0 where a space follows something else, else text.size().
std::size_t next_space(std::string_view text) {
  for (std::size_t at = text.find(kWordMark, 1); at != std::string_view::npos; at = text.find(kWordMark, at + 1)) {
    if (!text.substr(0, at).ends_with(kWordMark)) return at;
  }
  return text.size();
}

}  // namespace

// Cuts are made only before characters that are tokens: an unknown character could be fused with one before it.
SafeCuts::SafeCuts(const TokenizerSpec& spec, bool byte_level) {
  using Model = TokenizerSpec::Model;
  if (byte_level || spec.ignore_merges || spec.model == Model::kUnigram) return;
  space_is_token_ = spec.id_of.contains(kWordMark);
  for (std::size_t c = 0; c < ascii_tokens_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_tokens_[c] = spec.id_of.contains(std::string_view(&character, 1));
  }
  bool before_spaces = space_is_token_;
  const auto add = [&](TokenId id) {
    add_pairs(spec.tokens[id]);
    before_spaces = before_spaces && next_space(spec.tokens[id]) == spec.tokens[id].size();
  };
  if (spec.model == Model::kScoredBpe) {
    for (const auto& [token, id] : spec.id_of) add(id);
  } else {
    for (const TokenizerSpec::Merge& merge : spec.merges) add(merge.merged);
  }
  kind_ = before_spaces ? Kind::kBeforeSpaces : Kind::kBetweenPairs;
}

void SafeCuts::add_pairs(std::string_view token) {
  char32_t left = 0;
  for (std::size_t pos = 0; pos < token.size();) {
    const Utf8Char c = decode_utf8(token, pos);
    if (pos > 0) pairs_.set(slot_of(left, c.code_point));
    left = c.code_point;
    pos += std::max<std::size_t>(c.length, 1);
  }
}

std::size_t SafeCuts::next_pair_cut(std::string_view text) const {
  Utf8Char left = decode_utf8(text, 0);
  for (std::size_t pos = std::max<std::size_t>(left.length, 1); pos < text.size();) {
    const Utf8Char right = decode_utf8(text, pos);
    const bool is_token = right.length > 0 && right.code_point < ascii_tokens_.size()
                              ? ascii_tokens_[right.code_point]
                              : right.code_point == kSpaceCodePoint && space_is_token_;
    if (is_token && !pairs_.test(slot_of(left.code_point, right.code_point))) return pos;
    left = right;
    pos += std::max<std::size_t>(right.length, 1);
  }
  return text.size();
}

std::size_t SafeCuts::next_cut(std::string_view text) const {
  switch (kind_) {
    case Kind::kBeforeSpaces:
      return next_space(text);
    case Kind::kBetweenPairs:
      return next_pair_cut(text);
    case Kind::kNone:
      break;
  }
  return text.size();
}

void SafeCuts::split(std::string_view word, const std::function<void(std::string_view piece)>& on_piece) const {
  while (!word.empty()) {
    const std::size_t end = next_cut(word);
    on_piece(word.substr(0, end));
    word.remove_prefix(end);
  }
}

}  // namespace nibble::model
