#include "model/tokenizer/bpe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>

#include "core/random.h"
#include "model/tokenizer/safe_cuts.h"
#include "model/tokenizer/word_cache.h"
#include "tests/model/tokenizer/random_text.h"

namespace nibble::model {
namespace {

/// A spec without byte-level spelling: single characters of `alphabet` and random merges of what is there already.
TokenizerSpec random_spec(Random& random, std::string_view alphabet, std::size_t merges) {
  std::vector<std::string> tokens;
  for (std::size_t pos = 0; pos < alphabet.size();) {
    const std::size_t length = decode_utf8(alphabet, pos).length;
    tokens.emplace_back(alphabet.substr(pos, length));
    pos += length;
  }
  std::set<std::string> known(tokens.begin(), tokens.end());
  TokenizerSpec spec;
  while (spec.merges.size() < merges) {
    const auto left = static_cast<TokenId>(random.below(tokens.size()));
    const auto right = static_cast<TokenId>(random.below(tokens.size()));
    if (!known.insert(tokens[left] + tokens[right]).second) continue;
    spec.merges.push_back({left, right, static_cast<TokenId>(tokens.size())});
    tokens.push_back(tokens[left] + tokens[right]);
  }
  spec.tokens = std::move(tokens);
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  return spec;
}

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

std::string random_word(Random& random, std::string_view alphabet, std::size_t characters) {
  std::vector<std::string_view> letters;
  for (std::size_t pos = 0; pos < alphabet.size(); pos += letters.back().size()) {
    letters.push_back(alphabet.substr(pos, decode_utf8(alphabet, pos).length));
  }
  std::string word;
  for (std::size_t i = 0; i < characters; ++i) word += letters[random.below(letters.size())];
  return word;
}

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  bpe.encode(word, scratch, ids);
  return ids;
}

TEST(Bpe, AgreesWithTheDefinitionOnRandomMergesAndWords) {
  constexpr std::string_view kAlphabet = "abcé";
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TokenizerSpec spec = random_spec(random, kAlphabet, random.below(60));
    const Bpe bpe(spec, false);
    for (int i = 0; i < 10; ++i) {
      const std::string word = random_word(random, kAlphabet, random.below(40));
      ASSERT_EQ(encode(bpe, word), naive_bpe(spec, word)) << word;
    }
  }
}

TEST(Bpe, AnEmptyWordHasNoIds) {
  Random random(1);
  const TokenizerSpec spec = random_spec(random, "ab", 3);
  EXPECT_TRUE(encode(Bpe(spec, false), "").empty());
}

// Squared cost would take hours for a megabyte; near-linear cost takes seconds, even with sanitizers on a busy machine.
TEST(Bpe, AMegabyteWithoutASpaceTakesNoTime) {
  Random random(2);
  const TokenizerSpec spec = random_spec(random, "abcd", 2000);
  const Bpe bpe(spec, false);
  const std::string word = random_word(random, "abcd", 1'000'000) + std::string(200'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TokenId> ids = encode(bpe, word);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  std::string text;
  for (const TokenId id : ids) text += spec.tokens[id];
  EXPECT_TRUE(text == word);
}

TEST(SafeCuts, CutPiecesGiveTheIdsOfTheWhole) {
  constexpr std::string_view kAlphabet = "▁ab";
  int with_cuts = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TokenizerSpec spec = random_spec(random, kAlphabet, random.below(6));
    const SafeCuts cuts(spec, false);
    with_cuts += cuts.cuts_before_spaces() ? 1 : 0;
    const Bpe bpe(spec, false);
    const std::string word = random_word(random, kAlphabet, 50);
    std::vector<TokenId> ids;
    Bpe::Scratch scratch;
    cuts.split(word, [&](std::string_view piece) { bpe.encode(piece, scratch, ids); });
    ASSERT_EQ(ids, encode(bpe, word)) << word;
  }
  EXPECT_GT(with_cuts, 50);  // both kinds were tried
  EXPECT_LT(with_cuts, 350);
}

TEST(SafeCuts, AreNotMadeWhereAMergeCrossesThem) {
  TokenizerSpec spec;
  spec.tokens = {"▁", "a", "▁a", "a▁"};
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) spec.id_of.emplace(spec.tokens[id], id);
  spec.merges = {{0, 1, 2}};
  EXPECT_TRUE(SafeCuts(spec, false).cuts_before_spaces());
  spec.merges.push_back({1, 0, 3});
  EXPECT_FALSE(SafeCuts(spec, false).cuts_before_spaces());
}

TEST(WordCache, FindsWhatItRemembersAndNothingElse) {
  WordCache cache;
  EXPECT_TRUE(cache.find("").empty());
  EXPECT_TRUE(cache.find("word").empty());
  const std::vector<TokenId> ids{3, 1, 4};
  cache.remember("word", ids);
  EXPECT_TRUE(std::ranges::equal(cache.find("word"), ids));
  EXPECT_TRUE(cache.find("wor").empty());
}

TEST(WordCache, LeavesOutLongWordsAndLongResults) {
  WordCache cache;
  const std::string fits(30, 'x');
  cache.remember(fits, std::vector<TokenId>(8, 7));
  EXPECT_EQ(cache.find(fits).size(), 8u);
  cache.remember(fits + "x", std::vector<TokenId>{7});
  EXPECT_TRUE(cache.find(fits + "x").empty());
  cache.remember("many", std::vector<TokenId>(9, 7));
  EXPECT_TRUE(cache.find("many").empty());
}

TEST(WordCache, NeverGivesOneWordTheIdsOfAnother) {
  WordCache cache;  // 200,000 words in 65,536 slots: most are pushed out
  std::size_t kept = 0;
  const auto word = [](TokenId i) { return fmt::format("w{}", i); };
  for (TokenId i = 0; i < 200'000; ++i) cache.remember(word(i), std::vector<TokenId>{i});
  for (TokenId i = 0; i < 200'000; ++i) {
    const auto found = cache.find(word(i));
    if (found.empty()) continue;
    ASSERT_EQ(found.front(), i);
    ++kept;
  }
  EXPECT_GT(kept, 50'000u);
}

}  // namespace
}  // namespace nibble::model
