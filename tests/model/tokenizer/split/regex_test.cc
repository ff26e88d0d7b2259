#include "model/tokenizer/split/regex.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nibble::test::throws_with;

std::string marked(std::string_view pattern, std::string_view text) {
  std::string all;
  Regex(pattern, "test").for_each_match(text, [&](std::size_t begin, std::size_t end) {
    all += "[" + std::string(text.substr(begin, end - begin)) + "]";
  });
  return all;
}

TEST(Regex, AnEmptyMatchBehindAnotherDoesNotCount) {
  EXPECT_EQ(marked("a*", "baab"), "[][aa][]");  // before b, then aa, then at the end but not before the last b
  EXPECT_EQ(marked("a*", ""), "[]");
}

TEST(Regex, LineAnchorsKnowLines) {
  EXPECT_EQ(marked("^a$", "a\nb\na\n"), "[a][a]");
  EXPECT_EQ(marked("a$", "a\r\n"), "");
}

TEST(RegexLimits, AnExplodingPatternIsStoppedAndNamed) {
  const Regex regex("(a|a)*[bc]", "file: Split");
  EXPECT_TRUE(throws_with<FormatError>([&] { regex.for_each_match(std::string(2000, 'a'), [](auto, auto) {}); },
                                       "file: Split", "limit exceeded"));
}

TEST(RegexLimits, DeepRecursionIsStoppedAndNamed) {
  const Regex regex("(a(?1)?b|a(?1)?c)", "file: Split");
  EXPECT_TRUE(throws_with<FormatError>([&] { regex.for_each_match(std::string(3'000'000, 'a'), [](auto, auto) {}); },
                                       "file: Split", "limit exceeded"));
}

TEST(RegexErrors, AreNamedWithTheirPlace) {
  const auto compile = [](std::string_view pattern) { Regex(pattern, "file"); };
  EXPECT_TRUE(throws_with<FormatError>([&] { compile("a(b"); }, "file", "'a(b'", "missing closing parenthesis"));
  EXPECT_TRUE(throws_with<FormatError>([&] { compile("\\C"); }, "\\C is disabled"));
  EXPECT_TRUE(throws_with<FormatError>([&] { compile("\xFF"); }, "UTF-8 error"));
  EXPECT_TRUE(throws_with<FormatError>([&] { compile(std::string(20000, 'a')); }, "got 20000"));
}

}  // namespace
}  // namespace nibble::model
