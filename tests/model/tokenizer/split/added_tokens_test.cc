#include "model/tokenizer/split/added_tokens.h"

#include <gtest/gtest.h>

namespace nibble::model {
namespace {

/// The pieces, each with its id if it is a token: "a|7:<x>|b".
std::string split(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string result;
  AddedTokenFinder(tokens).split(text, [&](std::string_view piece, std::optional<TokenId> id) {
    if (!result.empty()) result += "|";
    if (id) result += std::to_string(*id) + ":";
    result += piece;
  });
  return result;
}

TEST(AddedTokens, AreCutOutOfTheText) {
  EXPECT_EQ(split({{.id = 7, .content = "<x>"}}, "a<x>b<x><x>"), "a|7:<x>|b|7:<x>|7:<x>");
  EXPECT_EQ(split({{.id = 7, .content = "<x>"}}, "a<x<b"), "a<x<b");
  EXPECT_EQ(split({{.id = 7, .content = "<x>"}}, ""), "");
  EXPECT_EQ(split({}, "abc"), "abc");
}

TEST(AddedTokens, TheLongestAtTheLeftmostPlaceWins) {
  const std::vector<AddedToken> tokens{
      {.id = 1, .content = "ab"}, {.id = 2, .content = "abcd"}, {.id = 3, .content = "bc"}};
  EXPECT_EQ(split(tokens, "abcde"), "2:abcd|e");
  EXPECT_EQ(split(tokens, "abce"), "1:ab|ce");
  EXPECT_EQ(split(tokens, "xbcd"), "x|3:bc|d");
}

TEST(AddedTokens, StripTakesWhiteSpaceAlong) {
  EXPECT_EQ(split({{.id = 1, .content = "<m>", .left_strip = true}}, "a \n<m> b"), "a|1: \n<m>| b");
  EXPECT_EQ(split({{.id = 1, .content = "<m>", .right_strip = true}}, "a <m>\u00A0 b"), "a |1:<m>\u00A0 |b");
  EXPECT_EQ(split({{.id = 1, .content = "<m>", .left_strip = true, .right_strip = true}}, "<m> <m>"), "1:<m> |1:<m>");
}

// Hugging Face searches on behind the token itself, not behind the space it took, and goes on from there.
TEST(AddedTokens, StrippedWhiteSpaceMayBelongToAnotherTokenToo) {
  const std::vector<AddedToken> tokens{{.id = 1, .content = "<m>", .right_strip = true}, {.id = 2, .content = " "}};
  EXPECT_EQ(split(tokens, "a<m>  b"), "a|1:<m>  |2: |2: |b");
  const std::vector<AddedToken> longer{{.id = 1, .content = "<m>", .right_strip = true}, {.id = 2, .content = "  "}};
  EXPECT_EQ(split(longer, "a<m>   b"), "a|1:<m>   |2:  | b");
}

TEST(AddedTokens, OfTheSameContentTheFirstCounts) {
  EXPECT_EQ(split({{.id = 2, .content = "x"}, {.id = 1, .content = "x"}}, "x"), "2:x");
}

TEST(AddedTokens, SingleWordsStandAlone) {
  const std::vector<AddedToken> tokens{{.id = 1, .content = "dog", .single_word = true}};
  EXPECT_EQ(split(tokens, "dog dogs hotdog dog_ édog dog"), "1:dog| dogs hotdog dog_ édog |1:dog");
  EXPECT_EQ(split(tokens, "dog\u0301 dog\u200D dog\u2460 dog-"), "dog\u0301 dog\u200D |1:dog|\u2460 |1:dog|-");
  EXPECT_EQ(split(tokens,
                  "\xFF"
                  "dog\xFF"),
            "\xFF|1:dog|\xFF");
}

}  // namespace
}  // namespace nibble::model
