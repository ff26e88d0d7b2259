#include "model/tokenizer/words/bpe.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/random.h"
#include "tests/model/tokenizer/random_spec.h"

namespace nibble::model {
namespace {

/// Merges the neighbours with the earliest merge, leftmost of equals. False if none have one.
bool merge_once(const TokenizerSpec& spec, std::vector<TokenId>& ids) {
  for (const TokenizerSpec::Merge& merge : spec.merges) {
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
      ids[i] = merge.merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return true;
    }
  }
  return false;
}

/// By the definition of BPE.
std::vector<TokenId> naive_bpe(const TokenizerSpec& spec, std::string_view word) {
  std::vector<TokenId> ids;
  for (std::size_t pos = 0; pos < word.size();) {
    const std::size_t length = decode_utf8(word, pos).length;
    ids.push_back(spec.id_of.at(word.substr(pos, length)));
    pos += length;
  }
  while (merge_once(spec, ids)) {
  }
  return ids;
}

TEST(Bpe, AgreesWithTheDefinitionOnRandomMergesAndWords) {
  constexpr std::string_view kAlphabet = "abcé";
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TokenizerSpec spec = test::random_spec(random, kAlphabet, random.below(60));
    const Bpe bpe(spec, false);
    for (int i = 0; i < 10; ++i) {
      const std::string word = test::random_word(random, kAlphabet, random.below(40));
      ASSERT_EQ(test::encode(bpe, word), naive_bpe(spec, word)) << word;
    }
  }
}

TEST(Bpe, AnEmptyWordHasNoIds) {
  Random random(1);
  const TokenizerSpec spec = test::random_spec(random, "ab", 3);
  EXPECT_TRUE(test::encode(Bpe(spec, false), "").empty());
}

// As Hugging Face's tokenizers do with Falcon's vocabulary, which lacks 28 bytes: what is beside them meets.
TEST(Bpe, LeavesOutWhatNeitherATokenNorAnUnknownOneStandsFor) {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "ab"};
  spec.merges = {{0, 1, 2}};
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  for (const bool byte_level : {false, true}) {
    SCOPED_TRACE(byte_level);
    const Bpe bpe(spec, byte_level);
    EXPECT_EQ(test::encode(bpe, "xayybéa"), (std::vector<TokenId>{2, 0}));
    EXPECT_TRUE(test::encode(bpe, "xé").empty());
  }
}

// Squared cost would take hours for a megabyte; near-linear cost takes seconds, even with sanitizers on a busy machine.
TEST(Bpe, AMegabyteWithoutASpaceTakesNoTime) {
  Random random(2);
  const TokenizerSpec spec = test::random_spec(random, "abcd", 2000);
  const Bpe bpe(spec, false);
  const std::string word = test::random_word(random, "abcd", 1'000'000) + std::string(200'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TokenId> ids = test::encode(bpe, word);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  std::string text;
  for (const TokenId id : ids) text += spec.tokens[id];
  EXPECT_TRUE(text == word);
}

}  // namespace
}  // namespace nibble::model
