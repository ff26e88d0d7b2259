#include "core/text/pattern.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

using test::throws_with;

constexpr Pattern::Limits kLimits{.pattern_bytes = 64, .steps = 100'000, .depth = 1'000, .heap_kib = 1'024};

Pattern over_bytes(std::string_view pattern) { return {pattern, Pattern::Over::kBytes, kLimits}; }
Pattern over_text(std::string_view pattern) { return {pattern, Pattern::Over::kUtf8, kLimits}; }

TEST(Pattern, FindsTheFirstMatchFromAPlaceOn) {
  const Pattern pattern = over_bytes("b+");
  const auto first = pattern.search("abbab");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin, 1u);
  EXPECT_EQ(first->end, 3u);
  const auto second = pattern.search("abbab", 3);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->begin, 4u);
  EXPECT_EQ(second->end, 5u);
  EXPECT_FALSE(pattern.search("abbab", 5));
}

TEST(Pattern, BytesAndCharactersDiffer) {
  EXPECT_EQ(over_bytes("^.").search("é")->end, 1u);
  EXPECT_EQ(over_text("^.").search("é")->end, 2u);
  EXPECT_FALSE(over_bytes("^b").search("a\nb"));
  EXPECT_EQ(over_text("^b").search("a\nb")->begin, 2u);
}

TEST(Pattern, CopiesSearchAlike) {
  const Pattern pattern = over_bytes("q_proj$");
  const Pattern copy = pattern;  // NOLINT(performance-unnecessary-copy-initialization): that is what is tested
  EXPECT_TRUE(copy.search("layers.0.q_proj"));
  EXPECT_FALSE(copy.search("layers.0.k_proj"));
}

TEST(Pattern, WhatDoesNotCompileIsNamedWithPlaceAndReason) {
  EXPECT_TRUE(throws_with<FormatError>([] { over_bytes("a(b"); }, "'a(b'", "missing closing parenthesis", "at byte 3"));
  EXPECT_TRUE(throws_with<FormatError>([] { over_bytes("\\C"); }, "\\C is disabled"));
  EXPECT_TRUE(throws_with<FormatError>([] { over_text("\xff"); }, "'?'", "UTF-8 error"));
  EXPECT_TRUE(throws_with<FormatError>([] { over_bytes(""); }, "1 to 64 bytes, got 0"));
  EXPECT_TRUE(throws_with<FormatError>([] { over_bytes(std::string(65, 'a')); }, "1 to 64 bytes, got 65"));
}

TEST(Pattern, AnExplodingSearchIsStopped) {
  const std::string text(2000, 'a');
  for (const Pattern& pattern : {over_bytes("(a|a)*[bc]"), over_text("(a|a)*[bc]")})
    EXPECT_TRUE(throws_with<FormatError>([&] { pattern.search(text); }, "'(a|a)*[bc]'", "limit exceeded"));
}

}  // namespace
}  // namespace nibble
