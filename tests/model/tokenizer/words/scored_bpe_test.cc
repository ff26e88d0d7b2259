#include "model/tokenizer/words/scored_bpe.h"

#include <gtest/gtest.h>

#include "tests/model/tokenizer/random_spec.h"

namespace nibble::model {
namespace {

using Ids = std::vector<TokenId>;

/// By the definition: of all neighbours whose text is a piece, those of the highest score merge, leftmost first.
Ids naive(const TokenizerSpec& spec, std::string_view word) {
  std::vector<std::string> symbols;
  for (std::size_t pos = 0; pos < word.size();) {
    const std::size_t length = decode_utf8(word, pos).length;
    symbols.emplace_back(word.substr(pos, length));
    pos += length;
  }
  while (true) {
    std::size_t best = symbols.size();
    double best_score = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto piece = spec.id_of.find(symbols[i] + symbols[i + 1]);
      if (piece == spec.id_of.end()) continue;
      if (best < symbols.size() && spec.scores[piece->second] <= best_score) continue;
      best = i;
      best_score = spec.scores[piece->second];
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  bool after_unknown = false;
  for (const std::string& symbol : symbols) {
    const auto piece = spec.id_of.find(symbol);
    const bool is_unknown = piece == spec.id_of.end();
    if (!is_unknown) ids.push_back(piece->second);
    if (is_unknown && !after_unknown) ids.push_back(*spec.unknown);
    after_unknown = is_unknown;
  }
  return ids;
}

// Equal scores, and pieces whose halves or characters are no pieces themselves, are common here.
TEST(ScoredBpe, AgreesWithTheDefinition) {
  constexpr std::string_view kAlphabet = "abcé";
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TokenizerSpec spec = test::random_spec(random, kAlphabet, random.below(40));
    spec.merges.clear();
    spec.model = TokenizerSpec::Model::kScoredBpe;
    for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
      spec.scores.push_back(-static_cast<double>(random.below(8)));
      if (random.below(4) == 0) spec.id_of.erase(spec.tokens[id]);
    }
    spec.unknown = 0;
    const ScoredBpe bpe(spec);
    for (int i = 0; i < 10; ++i) {
      const std::string word = test::random_word(random, kAlphabet, random.below(30));
      ASSERT_EQ(test::encode(bpe, word), naive(spec, word)) << word;
    }
  }
}

TEST(ScoredBpe, UserDefinedPiecesComeFirstAndMergeWithNothing) {
  using Kind = TokenizerSpec::PieceKind;
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kScoredBpe;
  spec.tokens = {"<unk>", "a", "b", "ab", "bb", "abb"};
  spec.scores = {0, -1, -1, -2, -1, -1};
  spec.kinds = {Kind::kUnknown, Kind::kNormal, Kind::kNormal, Kind::kUserDefined, Kind::kNormal, Kind::kNormal};
  for (std::size_t id = 1; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  spec.unknown = 0;
  EXPECT_EQ(test::encode(ScoredBpe(spec), "abbb"), (Ids{3, 4}));
  EXPECT_EQ(test::encode(ScoredBpe(spec), "aab"), (Ids{1, 3}));
}

}  // namespace
}  // namespace nibble::model
