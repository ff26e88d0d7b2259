#include "cli/terminal/text_stream.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace nibble::cli {
namespace {

// Every byte is a token; 256 is a special token. Like a Llama-2 style tokenizer, it drops the first blank of a text.
class ByteTokenizer final : public model::Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) text += id == 256 ? "<s>" : std::string(1, static_cast<char>(id));
    return text.starts_with(' ') ? text.substr(1) : text;
  }
  std::size_t vocabulary_size() const override { return 257; }
  std::vector<TokenId> added_prefix() const override { return {256}; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::string fingerprint() const override { return "bytes"; }
  std::size_t byte_length(TokenId id) const override { return id == 256 ? 0 : 1; }
};

const ByteTokenizer kBytes;

std::vector<std::string> pieces(std::string_view text, std::string_view prompt = "") {
  const std::vector<TokenId> before = kBytes.encode(prompt);
  TextStream stream(kBytes, before);
  std::vector<std::string> result;
  for (const TokenId id : kBytes.encode(text)) result.push_back(stream.push(id));
  result.push_back(stream.finish());
  return result;
}

std::string joined(const std::vector<std::string>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::string());
}

using Pieces = std::vector<std::string>;

TEST(TextStream, ACharacterAppearsWhenItsLastByteCame) {
  EXPECT_EQ(pieces("a\u00E9\u20AC"), (Pieces{"a", "", "\u00E9", "", "", "\u20AC", ""}));
  EXPECT_EQ(pieces("\U0001F600"), (Pieces{"", "", "", "\U0001F600", ""}));
}

TEST(TextStream, AnUnfinishedCharacterBecomesAReplacementAtTheEnd) {
  EXPECT_EQ(pieces("a\xE2\x82"), (Pieces{"a", "", "", "\uFFFD"}));
}

TEST(TextStream, BytesThatCannotBecomeACharacterAreReplacedAtOnce) {
  EXPECT_EQ(pieces("\xFFz"), (Pieces{"", "\uFFFDz", ""}));
  EXPECT_EQ(pieces("\x80z"), (Pieces{"\uFFFD", "z", ""}));
}

TEST(TextStream, TheFirstBlankIsDroppedOnlyAtTheStartOfTheText) {
  EXPECT_EQ(joined(pieces(" once upon")), "once upon");
  EXPECT_EQ(joined(pieces(" upon", "once")), " upon");
}

TEST(TextStream, SpecialTokensLeaveNoText) {
  const std::vector<TokenId> bos = {256};
  TextStream stream(kBytes, bos);
  EXPECT_EQ(stream.push(' '), "");  // the first of the text: BOS does not count
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(256), "");
  EXPECT_EQ(stream.push('b'), "b");
}

TEST(TextStream, LongTextsAreWhatDecodingAtOnceGives) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += " word\u20AC \U0001F600 ";
  EXPECT_EQ(joined(pieces(text, "It was a long prompt: " + text)), text);
}

}  // namespace
}  // namespace nibble::cli
