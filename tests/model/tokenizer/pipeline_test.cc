#include "model/tokenizer/pipeline.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "model/tokenizer/files/vocabulary.h"
#include "model/tokenizer/words/byte_alphabet.h"
#include "model/tokenizer/words/byte_tokens.h"
#include "tests/support/throws.h"

// Tokenizers made from values, as a reader of another file format would.

namespace nibble::model {
namespace {

using Ids = std::vector<TokenId>;
using Kind = TokenizerSpec::PieceKind;
using nibble::test::throws_with;

TEST(MakeTokenizer, ByteLevelBpeFromLists) {
  TokenizerSpec spec;
  spec.where = "lists";
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(spell_bytes(std::string(1, static_cast<char>(byte))));
  tokens.insert(tokens.end(), {"ab", "Ġab", "<|end|>"});
  std::vector<Kind> kinds(tokens.size(), Kind::kNormal);
  kinds[258] = Kind::kControl;
  set_tokens(spec, tokens, kinds);
  add_merge(spec, "a", "b", spec.where);
  add_merge(spec, "Ġ", "ab", spec.where);
  spec.added = {{.id = 258, .content = "<|end|>", .special = true}};
  spec.pre_tokenizer = {SplitStep{.pattern = R"(\p{N})"}, SplitStep{.pattern = R"( ?\p{L}+)"},
                        ByteLevelStep{.use_regex = false}};
  spec.decoder = {ByteLevelDecoderStep{}};
  spec.eos = 258;
  const auto tokenizer = make_tokenizer(std::move(spec));
  EXPECT_EQ(tokenizer->encode("ab ab1<|end|>é"), (Ids{256, 257, '1', 258, 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab ab1<|end|>é")), "ab ab1<|end|>é");
  EXPECT_EQ(tokenizer->byte_length(258), 0u);
  EXPECT_EQ(tokenizer->eos(), TokenId{258});
}

TokenizerSpec scored_spec() {
  TokenizerSpec spec;
  spec.where = "lists";
  spec.model = TokenizerSpec::Model::kScoredBpe;
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<Kind> kinds{Kind::kUnknown, Kind::kControl, Kind::kControl};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(byte_token(static_cast<std::uint8_t>(byte)));
    kinds.push_back(Kind::kByte);
  }
  for (const char* piece : {"▁", "a", "b", "▁a", "ab"}) {
    tokens.emplace_back(piece);
    kinds.push_back(Kind::kNormal);
  }
  set_tokens(spec, tokens, kinds);
  spec.scores.assign(tokens.size(), 0);
  spec.scores[262] = -2;
  spec.scores[263] = -1;
  spec.byte_fallback = true;
  spec.unknown = 0;
  spec.added = {{.id = 1, .content = "<s>", .special = true}, {.id = 2, .content = "</s>", .special = true}};
  spec.normalizer = {PrependStep{" "}, ReplaceStep{.pattern = " ", .to = "▁"}};
  spec.decoder = {ReplaceStep{.pattern = "▁", .to = " "}, ByteFallbackStep{}, FuseStep{},
                  StripStep{.content = " ", .start = 1}};
  spec.added_prefix = {1};
  return spec;
}

TEST(MakeTokenizer, ScoredBpeFromLists) {
  const auto tokenizer = make_tokenizer(scored_spec());
  EXPECT_EQ(tokenizer->encode("ab a</s>é"), (Ids{259, 263, 262, 2, 259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab aé")), "ab aé");
  EXPECT_EQ(tokenizer->added_bos(), TokenId{1});
}

TEST(MakeTokenizer, SpecsThatContradictThemselvesAreNamed) {
  const auto refused = [](auto change, auto... words) {
    return throws_with<FormatError>(
        [&] {
          TokenizerSpec spec = scored_spec();
          change(spec);
          make_tokenizer(std::move(spec));
        },
        "lists", words...);
  };
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.scores.pop_back(); }, "263 scores for 264 tokens"));
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.kinds.pop_back(); }, "263 kinds for 264 tokens"));
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.eos = 264; }, "special token 264 is not below"));
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.merges = {{0, 1, 264}}; }, "merge 264 is not below"));
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.added[0].id = 999; }, "added token 999 is not below"));
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.scores[5] = -1.0 / 0.0; }, "the score of token 5 is not finite"));
  EXPECT_TRUE(refused([](TokenizerSpec& s) { s.decoder.emplace_back(ByteFallbackStep{}); }, "after Fuse"));
  EXPECT_TRUE(refused(
      [](TokenizerSpec& s) {
        s.normalizer = {StripSpaceStep{}};
        s.added[0] = {.id = 1, .content = " ", .normalized = true};
      },
      "nothing is left of added token 1"));
}

TEST(MakeTokenizer, RawAddedTokensAreFoundBeforeNormalizedOnes) {
  TokenizerSpec spec = scored_spec();
  spec.normalizer.clear();
  spec.added = {{.id = 263, .content = "ab", .normalized = true}, {.id = 261, .content = "b<", .normalized = false}};
  EXPECT_EQ(make_tokenizer(std::move(spec))->encode("ab<"), (Ids{260, 261}));
}

}  // namespace
}  // namespace nibble::model
