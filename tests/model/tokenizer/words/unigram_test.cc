#include "model/tokenizer/words/unigram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tests/model/tokenizer/random_spec.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using Ids = std::vector<TokenId>;
using nibble::test::throws_with;

TokenizerSpec spec_of(std::vector<std::pair<std::string, double>> vocabulary) {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kUnigram;
  for (const auto& [token, score] : vocabulary) {
    spec.tokens.push_back(token);
    spec.scores.push_back(score);
  }
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  return spec;
}

// In whole numbers, as the scores of the test below are.
long score_of(const TokenizerSpec& spec, const Ids& ids) {
  long sum = 0;
  for (const TokenId id : ids) sum += std::lround(spec.scores[id]);
  return sum;
}

/// The best of all ways to cut the word, tried one after the other.
long best_score(const TokenizerSpec& spec, std::string_view word) {
  if (word.empty()) return 0;
  long best = -1'000'000;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!word.starts_with(spec.tokens[id])) continue;
    best = std::max(best, std::lround(spec.scores[id]) + best_score(spec, word.substr(spec.tokens[id].size())));
  }
  return best;
}

TEST(Unigram, FindsTheGreatestSum) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TokenizerSpec spec = test::random_spec(random, "abé", random.below(15));
    for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
      spec.scores.push_back(-static_cast<double>(1 + random.below(50)));
    }
    const Unigram unigram(spec);
    const std::string word = test::random_word(random, "abé", 1 + random.below(9));
    const Ids ids = test::encode(unigram, word);
    std::string text;
    for (const TokenId id : ids) text += spec.tokens[id];
    EXPECT_EQ(text, word);
    EXPECT_EQ(score_of(spec, ids), best_score(spec, word));
  }
}

TEST(Unigram, SeveralUnknownCharactersAreOneToken) {
  TokenizerSpec spec = spec_of({{"<unk>", 0}, {"a", -1}, {"xy", -100}});
  spec.unknown = 0;
  EXPECT_EQ(test::encode(Unigram(spec), "aééa"), (Ids{1, 0, 1}));
  EXPECT_EQ(test::encode(Unigram(spec), "xya"), (Ids{2, 1}));  // two unknown ones would score -220
  spec.unknown.reset();
  EXPECT_TRUE(throws_with<FormatError>([&] { test::encode(Unigram(spec), "é"); }, "C3 A9", "unk_token"));
}

TEST(Unigram, UnknownCharactersFallBackToBytesInOrder) {
  TokenizerSpec spec = spec_of({{"<unk>", 0}, {"a", -1}, {"<0xC3>", -9}, {"<0xA9>", -9}, {"<0xA7>", -9}});
  spec.unknown = 0;
  spec.byte_fallback = true;
  EXPECT_EQ(test::encode(Unigram(spec), "aéça"), (Ids{1, 2, 3, 2, 4, 1}));
  EXPECT_EQ(test::encode(Unigram(spec), "aéüa"), (Ids{1, 0, 1}));  // 0xBC has no token, so the run is unknown
}

TEST(Unigram, WithSentencePiecesRulesUserDefinedPiecesWin) {
  using Kind = TokenizerSpec::PieceKind;
  TokenizerSpec spec = spec_of({{"<unk>", 0}, {"ab", -1}, {"bc", 0}, {"a", -2}, {"c", -2}, {"b", -2}, {"abc", -1}});
  spec.unknown = 0;
  spec.sentencepiece_arithmetic = true;
  spec.kinds.assign(7, Kind::kNormal);
  spec.kinds[0] = Kind::kUnknown;
  EXPECT_EQ(test::encode(Unigram(spec), "abc"), Ids{6});
  spec.kinds[6] = Kind::kUnused;
  EXPECT_EQ(test::encode(Unigram(spec), "abc"), (Ids{3, 2}));
  spec.kinds[2] = Kind::kControl;
  EXPECT_EQ(test::encode(Unigram(spec), "abc"), (Ids{1, 4}));
  spec.kinds[2] = Kind::kUserDefined;
  EXPECT_EQ(test::encode(Unigram(spec), "abc"), (Ids{3, 2}));
}

}  // namespace
}  // namespace nibble::model
