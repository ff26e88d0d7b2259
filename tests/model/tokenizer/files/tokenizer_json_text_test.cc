#include "model/tokenizer/files/tokenizer_json_text.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text/json.h"
#include "model/tokenizer/files/tokenizer_json.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/pipeline.h"
#include "tests/model/tokenizer/tiny_tokenizer.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nibble::test::TempDir;
using nibble::test::throws_with;
using nibble::test::write_file;
using test::byte_level_json;
using Kind = TokenizerSpec::PieceKind;

/// The spec of a tokenizer.json, written and read again.
TokenizerSpec read(const TempDir& dir, const std::string& text) {
  write_file(dir / "tokenizer.json", text);
  return read_tokenizer_json(dir / "tokenizer.json", {});
}

std::vector<TokenId> ids(const TokenizerSpec& spec, const TempDir& dir, const std::string& text) {
  return make_tokenizer(read(dir, tokenizer_json_text(spec)))->encode(text);
}

TEST(TokenizerJsonText, IsReadBackAsItWas) {
  const TempDir dir;
  nlohmann::json file = byte_level_json({{"l", "o"}, {"h", "e"}, {"he", "l"}});
  file["model"]["vocab"]["<|end|>"] = 259;  // as it is written: the programs count ids of others anew
  file["model"]["vocab"]["<|end|>"] = 259;  // as it is written: the programs count ids of others anew
  file["added_tokens"] = {{{"id", 259},
                           {"content", "<|end|>"},
                           {"special", true},
                           {"normalized", false},
                           {"rstrip", true},
                           {"lstrip", false},
                           {"single_word", false}}};
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "NFC"}},
                          {{"type", "Replace"}, {"pattern", {{"Regex", "z+"}}}, {"content", "z"}},
                          {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}}}};
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "\\d"}}}, {"behavior", "MergedWithPrevious"}, {"invert", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}}}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<|end|>", {{"ids", {259}}}}}}};
  const TokenizerSpec spec = read(dir, file.dump());
  const std::string text = tokenizer_json_text(spec);
  const TokenizerSpec again = read(dir, text);
  EXPECT_EQ(make_tokenizer(read(dir, text))->fingerprint(), make_tokenizer(read(dir, file.dump()))->fingerprint());
  EXPECT_EQ(again.added_prefix, std::vector<TokenId>{259});
  EXPECT_TRUE(again.added.at(0).right_strip);
  EXPECT_EQ(tokenizer_json_text(again), text);
}

TEST(TokenizerJsonText, KeepsSeveralTokensBeforeATextInTheirOrder) {
  const TempDir dir;
  TokenizerSpec spec = read(dir, byte_level_json().dump());
  spec.added_prefix = {'b', 'a'};
  const TokenizerSpec again = read(dir, tokenizer_json_text(spec));
  EXPECT_EQ(again.added_prefix, (std::vector<TokenId>{'b', 'a'}));
}

/// a, b, c, d and what they merge into, by scores.
TokenizerSpec scored(std::vector<std::pair<std::string, double>> pieces) {
  TokenizerSpec spec;
  spec.where = "vocabulary";
  spec.model = TokenizerSpec::Model::kScoredBpe;
  std::vector<std::string> tokens{"<unk>"};
  std::vector<Kind> kinds{Kind::kUnknown};
  spec.scores = {0.0};
  for (auto& [piece, score] : pieces) {
    tokens.push_back(piece);
    kinds.push_back(Kind::kNormal);
    spec.scores.push_back(score);
  }
  set_tokens(spec, std::move(tokens), std::move(kinds));
  spec.unknown = 0;
  spec.decoder = {FuseStep{}};
  return spec;
}

TEST(TokenizerJsonText, TurnsScoresIntoMerges) {
  const TempDir dir;
  // "ab" before "bc" before "abc", which both ways of cutting make.
  const TokenizerSpec spec =
      scored({{"a", -9}, {"b", -9}, {"c", -9}, {"ab", -1}, {"bc", -2}, {"abc", -3}, {"bcbc", -4}});
  const auto file = nlohmann::json::parse(tokenizer_json_text(spec));
  using Pairs = std::vector<std::vector<std::string>>;
  EXPECT_EQ(file["model"]["merges"].get<Pairs>(),
            (Pairs{{"a", "b"}, {"b", "c"}, {"a", "bc"}, {"ab", "c"}, {"bc", "bc"}}));
  EXPECT_EQ(file["model"]["unk_token"], "<unk>");
  EXPECT_EQ(ids(spec, dir, "abcbc"), (std::vector<TokenId>{6, 5}));
  EXPECT_EQ(ids(spec, dir, "bcbcq"), (std::vector<TokenId>{7, 0}));
}

TEST(TokenizerJsonText, KeepsTokensOfOneSpellingApart) {
  TokenizerSpec spec = scored({{"a", -1}, {"b", -2}, {"a", -3}});
  const auto file = nlohmann::json::parse(tokenizer_json_text(spec));
  EXPECT_EQ(file["model"]["vocab"], (nlohmann::json{{"<unk>", 0}, {"a#1", 1}, {"b", 2}, {"a", 3}}));
}

TEST(TokenizerJsonText, RefusesWhatItCannotSay) {
  TokenizerSpec unigram = scored({{"a", -1}});
  unigram.model = TokenizerSpec::Model::kUnigram;
  EXPECT_TRUE(throws_with<FormatError>([&] { tokenizer_json_text(unigram); }, "vocabulary", "Unigram", "expected BPE"));
  TokenizerSpec charsmap = scored({{"a", -1}});
  charsmap.normalizer = {SentencePieceStep{}};
  EXPECT_TRUE(throws_with<FormatError>([&] { tokenizer_json_text(charsmap); }, "SentencePiece's normalisation"));
  const TokenizerSpec bytes = scored({{"\xC3", -1}});
  EXPECT_TRUE(throws_with<FormatError>([&] { tokenizer_json_text(bytes); }, "token 1 is not UTF-8"));
}

TEST(TokenizerConfigText, NamesTheSpecialTokens) {
  TokenizerSpec spec = scored({{"<s>", 0}, {"</s>", 0}});
  spec.kinds = {TokenizerSpec::PieceKind::kUnknown, TokenizerSpec::PieceKind::kControl,
                TokenizerSpec::PieceKind::kControl};
  const auto config = nlohmann::json::parse(tokenizer_config_text(spec, {{"bos_token", 1}, {"eos_token", 2}}));
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
}

// Transformers, and so we, cut what has a name out of texts.
TEST(TokenizerConfigText, NamesNoTokenThatTextsAreMadeOfButTheLast) {
  TokenizerSpec spec = scored({{"a", 0}, {"b", 0}, {"c", 0}});
  spec.added = {{.id = 3, .content = "c", .special = true}};
  const auto config = nlohmann::json::parse(
      tokenizer_config_text(spec, {{"bos_token", 1}, {"eos_token", 2}, {"pad_token", 3}, {"unk_token", 0}}));
  EXPECT_FALSE(config.contains("bos_token"));
  EXPECT_EQ(config["eos_token"], "b");
  EXPECT_EQ(config["pad_token"], "c");
}

}  // namespace
}  // namespace nibble::model
