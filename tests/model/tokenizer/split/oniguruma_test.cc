#include "model/tokenizer/split/oniguruma.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "model/tokenizer/split/matcher.h"
#include "tests/support/throws.h"

// What Oniguruma matches was found with the Split pre-tokenizer of Hugging Face's tokenizers 0.23.

namespace nibble::model {
namespace {

using nibble::test::throws_with;

std::string matches(const std::string& pattern, std::string_view text) {
  std::string all;
  make_matcher(pattern, false, "test")(text, [&](std::size_t begin, std::size_t end) {
    all += "[" + std::string(text.substr(begin, end - begin)) + "]";
  });
  return all;
}

TEST(Oniguruma, ABracketInAClassIsAClass) {
  EXPECT_EQ(matches("[a[bc]-]+", "a-cb[]"), "[a-cb]");
  EXPECT_EQ(matches("[a[^b]]", "ab[c"), "[a][[][c]");
  EXPECT_EQ(matches("[^a[bc]]+", "abc[]"), "[[]]");
  // Bloom's pattern: the inner brackets are no characters of the class.
  EXPECT_EQ(matches(R"( ?[^(\s|[.,!?…。，、।۔،])]+)", "Hi there, (a|b) [c]. d。e"), "[Hi][ there][a][b][ [c]][ d][e]");
}

TEST(Oniguruma, TwoAmpersandsIntersect) {
  EXPECT_EQ(matches("[a-z&&[^aeiou]]+", "abcde"), "[bcd]");
  EXPECT_EQ(matches("[^a-c&&b-d]+", "abcde"), "[a][de]");
  EXPECT_EQ(matches("[a&b]+", "a&b"), "[a&b]");
}

TEST(Oniguruma, ABracedRepetitionIsNotPossessive) {
  EXPECT_EQ(matches(R"(\p{N}{1,3}+)", "1234567"), "[1234567]");
  EXPECT_EQ(matches("a{2}?b", "aab b"), "[aab][b]");
  EXPECT_EQ(matches("xa{,2}", "xaaa"), "[xaa]");
  EXPECT_EQ(matches("a{,}{x", "a{,}{x"), "[a{,}{x]");
  EXPECT_EQ(matches("a++a|b?+b|c", "aab c"), "[c]");
}

TEST(Oniguruma, ShorthandsAreUnicodes) {
  EXPECT_EQ(matches(R"(\s)", "\u180E\u0085\u2028\x1C"), "[\u0085][\u2028]");
  EXPECT_EQ(matches(R"(\w+)", "aé_٣²\u0301\u203Fx-\u200D"), "[aé_٣²\u0301\u203Fx]");
  EXPECT_EQ(matches(R"(\h+)", "0fg\t"), "[0f]");
  EXPECT_EQ(matches(R"([\W]+|[\D&&b])", "a-b"), "[-][b]");
  EXPECT_EQ(matches(R"(\v)", "\n\v"), "[\v]");
}

TEST(Oniguruma, NumbersOfLatin1ArePartsOfWordsOutsideOfBracketsOnly) {
  EXPECT_EQ(matches(R"(\w+)", "a²³¹¼½¾"), "[a²³¹¼½¾]");
  EXPECT_EQ(matches(R"(\p{Word}+)", "a²³¹¼½¾"), "[a²³¹¼½¾]");
  EXPECT_EQ(matches(R"(\W)", "a²-"), "[-]");
  EXPECT_EQ(matches(R"(\b..)", "a²½x"), "[a²]");
  for (const char* word : {R"([\w]+)", "[[:word:]]+", R"([\p{Word}]+)", R"([^\W]+)", R"([x[\w]]+)"})
    EXPECT_EQ(matches(word, "a²b³¹¼½¾c"), "[a][b][c]") << word;
  for (const char* other : {R"([^\w]+)", R"([\W]+)", "[[:^word:]]+", R"([^\p{Word}]+)"})
    EXPECT_EQ(matches(other, "a²b³¹¼½¾c"), "[²][³¹¼½¾]") << other;
}

TEST(Oniguruma, PosixBracketsAndPropertiesAreOnigurumas) {
  EXPECT_EQ(matches("[[:punct:]]+", "a$+.€x"), "[$+.€]");
  EXPECT_EQ(matches(R"(\p{Punct}+|[\p{Punct}x]+)", "a$+.€x"), "[.][x]");  // without the symbols
  EXPECT_EQ(matches("[[:alpha:]]+|[[:^alpha:]]", "Ⅷa1"), "[Ⅷa][1]");
  EXPECT_EQ(matches(R"(\p{Han}\p{^Han}\P{Han}\p{^Uppercase_Letter})", "中ab1"), "[中ab1]");
}

TEST(Oniguruma, OptionsAndLines) {
  EXPECT_EQ(matches("(?i:'s|'LL)", "'S'ſ'll'l"), "['S]['ſ]['ll]");
  EXPECT_EQ(matches("(?i)a|k", "AK\u212A"), "[A][K][\u212A]");
  EXPECT_EQ(matches("a.b|(?m:c.d)", "a\nb c\nd"), "[c\nd]");
  EXPECT_EQ(matches("^a$", "a\na\nb"), "[a][a]");
}

TEST(Oniguruma, OnlyBracketsFoldTheirMembers) {
  EXPECT_EQ(matches(R"((?i)\p{Lu}|\P{Ll})", "aA1"), "[A][1]");
  EXPECT_EQ(matches(R"((?i)^\w$)", "ss"), "");
  EXPECT_EQ(matches("(?i:[k-s])", "Kſ\u212Az"), "[K][ſ][\u212A]");
  EXPECT_EQ(matches(R"((?i)[\p{N}\p{S}\s[:punct:]\p{Lo}\p{Han}x]+)", "ⅷⒶ aX."), "[ⅷⒶ ][X.]");
  EXPECT_EQ(matches("(?i)[s]s", "ßSs"), "[Ss]");  // though "ss" would match ß
}

TEST(Oniguruma, WhatHasNoTranslationIsNamed) {
  const auto refused = [](const std::string& pattern, auto... words) {
    return throws_with<FormatError>([&] { pcre2_pattern(pattern, "file"); }, "file", "not supported", words...);
  };
  EXPECT_TRUE(refused(R"((a)\1)", "the escape \\1"));
  EXPECT_TRUE(refused(R"(\Gx)", "the escape \\G"));
  EXPECT_TRUE(refused(R"(\Kx)", "the escape \\K"));
  EXPECT_TRUE(refused(R"(\Xx)", "the escape \\X"));
  EXPECT_TRUE(refused(R"(\Q.\E)", "the escape \\Q"));
  EXPECT_TRUE(refused("(?<name>a)", "a group of a kind"));
  EXPECT_TRUE(refused("(?~ab)", "a group of a kind"));
  EXPECT_TRUE(refused("(?x: a )", "a group of a kind"));
  EXPECT_TRUE(refused("a(?i)b", "options in the middle of a group"));
  EXPECT_TRUE(refused("(?i:ss)", "'ss' under (?i)"));
  EXPECT_TRUE(refused("(?i:ß)", "beyond ASCII under (?i)"));
  EXPECT_TRUE(refused(R"((?i)s\x73)", "'ss' under (?i)"));
  EXPECT_TRUE(refused(R"((?i)\u00DF)", "beyond ASCII under (?i)"));
  EXPECT_TRUE(refused("(?i:[^a])", "such a class under (?i)"));
  // [\p{Lu}] matches "a", [\p{L}] and \p{M} have U+0345 and Ι in common, all that have ß match "ss".
  for (const char* set :
       {R"(\p{Lu})", R"(\p{Ll})", R"(\p{Lt})", R"(\p{L})", R"(\p{M})", R"(\p{Mn})", R"(\p{Greek})", "[:upper:]",
        "[:lower:]", "[:alpha:]", "[:alnum:]", R"(\w)", R"(\p{Uppercase})", R"(\p{Any})", "ß", R"(\u00DF)", "!-ÿ"})
    EXPECT_TRUE(refused(std::string("(?i)[x") + set + "]", "such a class under (?i)")) << set;
  EXPECT_TRUE(refused(R"(\xFF)", "a byte beyond ASCII"));
  EXPECT_TRUE(refused(R"(\pL)", "\\p without braces"));
  EXPECT_TRUE(refused(R"(\p{L)", "without an end"));
  EXPECT_TRUE(refused("[[:graph:]]", "such a [:class:]"));
  EXPECT_TRUE(refused("[]a]", "begins with ']'"));
  EXPECT_TRUE(refused("[a", "a class without an end"));
  EXPECT_TRUE(refused("[z-a]", "a range that goes backwards"));
  EXPECT_TRUE(refused(R"([\d-z])", "a range that begins with a class"));
  EXPECT_TRUE(refused("(a", "a missing closing parenthesis"));
  EXPECT_TRUE(refused("a)", "without an opening one"));
  EXPECT_TRUE(refused("*a", "a repetition of nothing"));
  EXPECT_TRUE(refused("^*", "a repetition of a place"));
  EXPECT_TRUE(refused(std::string(100, '('), "nested too deep"));
  EXPECT_TRUE(refused(std::string(100, '['), "nested too deep"));
  EXPECT_TRUE(
      throws_with<FormatError>([] { make_matcher(R"(\p{Klingon})", false, "file"); }, "file", "unknown property"));
}

}  // namespace
}  // namespace nibble::model
