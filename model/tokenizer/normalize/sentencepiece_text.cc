#include "model/tokenizer/normalize/sentencepiece_text.h"

#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

constexpr std::string_view kSpace = "\u2581";

}  // namespace

SentencePieceText::SentencePieceText(const SentencePieceStep& step, const std::string& where) : step_(step) {
  if (!step.charsmap.empty()) charsmap_.emplace(step.charsmap, where);
  step_.charsmap.clear();
  for (std::size_t c = 0; c < 0x80; ++c) {
    is_plain_[c] = c != ' ' && !(charsmap_ && charsmap_->may_start(static_cast<char>(c)));
  }
  for (const std::string& text : step.user_defined) {
    if (text.empty()) continue;
    user_defined_.insert(text, 0);
    is_plain_[static_cast<unsigned char>(text.front())] = false;
  }
}

SentencePieceText::Piece SentencePieceText::next(std::string_view text) const {
  if (const std::size_t length = user_defined_.longest_prefix(text).length; length > 0) {
    return {length, text.substr(0, length)};
  }
  if (charsmap_) {
    if (const Charsmap::Rule rule = charsmap_->longest_rule(text); rule.length > 0) {
      return {rule.length, rule.replacement};
    }
  }
  const std::size_t length = decode_utf8(text, 0).length;
  return length > 0 ? Piece{length, text.substr(0, length)} : Piece{1, "\uFFFD"};
}

std::string SentencePieceText::apply(std::string_view text) const {
  const std::string_view space = step_.escape_whitespaces ? kSpace : " ";
  const auto drop_leading_spaces = [&] {
    while (!text.empty()) {
      const Piece piece = next(text);
      if (piece.text != " ") return;
      text.remove_prefix(piece.length);
    }
  };
  if (step_.remove_extra_whitespaces) drop_leading_spaces();
  std::string result;
  if (text.empty()) return result;
  result.reserve(text.size() + text.size() / 2);
  if (step_.add_dummy_prefix && !step_.whitespace_as_suffix) result += space;
  bool after_space = step_.remove_extra_whitespaces;
  while (!text.empty()) {
    if (is_plain_[static_cast<unsigned char>(text.front())]) {
      result += text.front();
      text.remove_prefix(1);
      after_space = false;
      continue;
    }
    Piece piece = next(text);
    text.remove_prefix(piece.length);
    while (after_space && piece.text.starts_with(' ')) piece.text.remove_prefix(1);
    if (piece.text.empty()) continue;
    for (const char c : piece.text) {
      if (c == ' ') {
        result += space;
      } else {
        result += c;
      }
    }
    after_space = step_.remove_extra_whitespaces && piece.text.ends_with(' ');
  }
  if (step_.remove_extra_whitespaces) {
    while (result.ends_with(space)) result.erase(result.size() - space.size());
  }
  if (step_.add_dummy_prefix && step_.whitespace_as_suffix) result += space;
  return result;
}

}  // namespace nibble::model
