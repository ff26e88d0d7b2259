#include "cli/terminal/text_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model/tokenizer/utf8.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kLongestWindow = 64;

// Bytes at the end of `text` that start a character whose other bytes may still come.
std::size_t unfinished_tail(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if ((byte & 0xC0u) == 0x80u) continue;  // a continuation: its first byte is further left
    const std::size_t wanted = byte >= 0xF0u ? 4 : byte >= 0xE0u ? 3 : byte >= 0xC0u ? 2 : 1;
    return wanted > length ? length : 0;
  }
  return 0;
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  model::for_each_utf8_stretch(
      bytes, [&](std::string_view valid) { text += valid; }, [&](std::string_view) { text += "\uFFFD"; });
  return text;
}

}  // namespace

TextStream::TextStream(const model::Tokenizer& tokenizer, std::span<const TokenId> prompt) : tokenizer_(tokenizer) {
  for (const TokenId id : prompt.last(std::min(prompt.size(), kLongestWindow)))
    if (tokenizer_.byte_length_if_known(id) > 0) window_.push_back(id);
  shown_ = tokenizer_.decode(window_).size();
}

std::string TextStream::push(TokenId id) {
  if (tokenizer_.byte_length_if_known(id) == 0) return {};
  window_.push_back(id);
  const std::string text = tokenizer_.decode(window_);
  const std::size_t certain = text.size() - unfinished_tail(text);
  if (certain <= shown_) return {};
  std::string piece = with_replacements(std::string_view(text).substr(shown_, certain - shown_));
  shown_ = certain;
  if (window_.size() > kLongestWindow && shown_ == text.size()) {
    window_ = {id};
    shown_ = tokenizer_.decode(window_).size();
  }
  return piece;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(window_);
  return with_replacements(std::string_view(text).substr(std::min(std::exchange(shown_, text.size()), text.size())));
}

}  // namespace nibble::cli
