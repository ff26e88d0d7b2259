#include "model/tokenizer/words/own_merges.h"

#include <gtest/gtest.h>

#include "model/tokenizer/files/vocabulary.h"

namespace nibble::model {
namespace {

TokenizerSpec abc(std::vector<std::string> more, std::vector<std::pair<std::string, std::string>> merges) {
  TokenizerSpec spec;
  spec.where = "test";
  std::vector<std::string> tokens{"a", "b", "c", "é"};
  tokens.insert(tokens.end(), more.begin(), more.end());
  set_tokens(spec, std::move(tokens), {});
  for (const auto& [left, right] : merges) add_merge(spec, left, right, "test");
  return spec;
}

TEST(OwnMerges, MakeEveryTokenOrNot) {
  EXPECT_TRUE(merges_make_every_token(abc({}, {})));
  EXPECT_TRUE(merges_make_every_token(abc({"ab", "abc", "éa"}, {{"a", "b"}, {"ab", "c"}, {"é", "a"}})));
  // "abc" has a merge that never comes about: b and c are one by then.
  EXPECT_FALSE(merges_make_every_token(abc({"bc", "ab", "abc"}, {{"b", "c"}, {"a", "b"}, {"ab", "c"}})));
  EXPECT_FALSE(merges_make_every_token(abc({"ab"}, {}))) << "no merge";
  EXPECT_FALSE(merges_make_every_token(abc({"ad"}, {}))) << "no token for d";
}

TEST(OwnMerges, AddedTokensAreNoWords) {
  TokenizerSpec spec = abc({"<end>"}, {});
  EXPECT_FALSE(merges_make_every_token(spec));
  spec.added = {{.id = 4, .content = "<end>", .special = true}};
  EXPECT_TRUE(merges_make_every_token(spec));
}

}  // namespace
}  // namespace nibble::model
