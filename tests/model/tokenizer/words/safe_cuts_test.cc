#include "model/tokenizer/words/safe_cuts.h"

#include <gtest/gtest.h>

#include "model/tokenizer/words/bpe.h"
#include "tests/model/tokenizer/random_spec.h"

namespace nibble::model {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(const TokenizerSpec& spec, std::string_view word) {
  Pieces found;
  SafeCuts(spec, false).split(word, [&](std::string_view piece) { found.emplace_back(piece); });
  return found;
}

TEST(SafeCuts, CutPiecesGiveTheIdsOfTheWhole) {
  constexpr std::string_view kAlphabet = "▁ab,é";
  std::size_t cut = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TokenizerSpec spec = test::random_spec(random, kAlphabet, random.below(12));
    const SafeCuts cuts(spec, false);
    const Bpe bpe(spec, false);
    const std::string word = test::random_word(random, kAlphabet, 50);
    std::vector<TokenId> ids;
    WordModel::Scratch scratch;
    cuts.split(word, [&](std::string_view piece) {
      bpe.encode(piece, scratch, ids);
      ++cut;
    });
    ASSERT_EQ(ids, test::encode(bpe, word)) << word;
  }
  EXPECT_GT(cut, 3000u);  // more than five pieces each: cuts were made
}

TEST(SafeCuts, AreMadeBeforeSpacesOnlyWhereNoTokenCrossesOne) {
  TokenizerSpec spec;
  spec.tokens = {"▁", "a", "▁a", "a▁"};
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  spec.merges = {{0, 1, 2}};
  EXPECT_EQ(pieces(spec, "▁aa▁▁a"), (Pieces{"▁aa", "▁▁a"}));
  spec.merges.push_back({1, 0, 3});
  EXPECT_EQ(pieces(spec, "▁aa▁▁a"), (Pieces{"▁a", "a▁", "▁a"}));  // "aa" and "▁▁" are in no token
}

TEST(SafeCuts, UnknownCharactersStayTogether) {
  TokenizerSpec spec;  // "bb" could be one unknown token
  spec.tokens = {"a", "aa"};
  spec.id_of = {{spec.tokens[0], 0}, {spec.tokens[1], 1}};
  spec.merges = {{0, 0, 1}};
  EXPECT_EQ(pieces(spec, "abba"), (Pieces{"abb", "a"}));
}

TEST(SafeCuts, AreNotMadeWhereAWholeWordMayBeAToken) {
  TokenizerSpec spec;
  spec.tokens = {"a", "b"};
  spec.id_of = {{spec.tokens[0], 0}, {spec.tokens[1], 1}};
  EXPECT_TRUE(SafeCuts(spec, false).makes_cuts());
  spec.ignore_merges = true;
  EXPECT_FALSE(SafeCuts(spec, false).makes_cuts());
}

}  // namespace
}  // namespace nibble::model
