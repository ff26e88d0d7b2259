#include "model/tokenizer/words/word_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace nibble::model {
namespace {

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
