#include "model/tokenizer/words/trie.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/random.h"
#include "tests/model/tokenizer/random_text.h"

namespace nibble::model {
namespace {

TEST(Trie, FindsThePrefixesThatWereInserted) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto word = [&] {
      std::string text;
      for (std::size_t size = 1 + random.below(6); size > 0; --size) text += "ab\xFF"[random.below(3)];
      return text;
    };
    Trie trie;
    std::map<std::string, std::uint32_t> known;
    for (std::uint32_t i = 0; i < 300; ++i) {
      const std::string text = word();
      EXPECT_EQ(trie.insert(text, i), known.emplace(text, i).second);
    }
    for (int i = 0; i < 100; ++i) {
      const std::string text = word() + word();
      std::map<std::string, std::uint32_t> found;
      trie.for_each_prefix(text,
                           [&](std::size_t length, std::uint32_t value) { found[text.substr(0, length)] = value; });
      std::map<std::string, std::uint32_t> expected;
      for (std::size_t length = 1; length <= text.size(); ++length) {
        if (const auto at = known.find(text.substr(0, length)); at != known.end()) expected.insert(*at);
      }
      EXPECT_EQ(found, expected);
      EXPECT_EQ(trie.longest_prefix(text).length, expected.empty() ? 0u : expected.rbegin()->first.size());
    }
  }
}

TEST(Trie, AnEmptyOneFindsNothing) {
  EXPECT_TRUE(Trie().empty());
  EXPECT_EQ(Trie().longest_prefix("a").length, 0u);
}

}  // namespace
}  // namespace nibble::model
