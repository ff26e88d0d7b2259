#include "model/tokenizer/split/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "model/tokenizer/split/gpt2_pattern.h"
#include "tests/model/tokenizer/random_text.h"

namespace nibble::model {
namespace {

using Behavior = SplitStep::Behavior;
using Words = std::vector<std::string>;

constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Words split(const std::vector<PreTokenizerStep>& steps, std::string_view text) {
  Words words;
  PreTokenizer(steps, "test").split(text, true, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

Words split_by(SplitStep step, std::string_view text) { return split({std::move(step)}, text); }
Words split_gpt2(std::string_view text) { return split({ByteLevelStep{}}, text); }

/// GPT-2's pattern through PCRE2: a group around it keeps the hand-written code away.
Words split_gpt2_by_regex(std::string_view text) {
  static const PreTokenizer pre_tokenizer({SplitStep{.pattern = "(?:" + std::string(kGpt2Pattern) + ")"}}, "test");
  Words words;
  pre_tokenizer.split(text, true, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(Gpt2Pattern, KeepsASpaceWithTheWordAfterIt) {
  EXPECT_EQ(split_gpt2("Hello world! It's 12 o'clock, isn't it?"),
            (Words{"Hello", " world", "!", " It", "'s", " 12", " o", "'", "clock", ",", " isn", "'t", " it", "?"}));
}

TEST(Gpt2Pattern, LeavesTheLastOfSeveralSpacesToTheNextWord) {
  EXPECT_EQ(split_gpt2("a  b\n\nc \n d   "), (Words{"a", " ", " b", "\n", "\n", "c", " \n", " d", "   "}));
}

TEST(Gpt2Pattern, OnlyAPlainSpaceJoinsAWord) {
  EXPECT_EQ(split_gpt2("\u00A0x\u3000\u3000y\tz"), (Words{"\u00A0", "x", "\u3000", "\u3000", "y", "\t", "z"}));
}

TEST(Gpt2Pattern, ContractionsAreLowerCase) {
  EXPECT_EQ(split_gpt2("'s'S 're'R'll'l''t"),
            (Words{"'s", "'", "S", " '", "re", "'", "R", "'ll", "'", "l", "''", "t"}));
}

TEST(Gpt2Pattern, TakesLettersAndNumbersOfAllScripts) {
  EXPECT_EQ(split_gpt2("été中文٣½Ⅷ\u0301😀"), (Words{"été中文", "٣½Ⅷ", "\u0301😀"}));
}

TEST(Gpt2Pattern, HandWrittenCodeAgreesWithPcre2OnRandomText) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string text = test::random_text(random, 1 + random.below(30));
    ASSERT_EQ(split_gpt2(text), split_gpt2_by_regex(text)) << testing::PrintToString(text);
  }
}

TEST(Gpt2Pattern, HandWrittenCodeAgreesWithPcre2OnInvalidUtf8) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string text = test::random_text(random, 1 + random.below(20));
    for (int i = 0; i < 3; ++i) {
      text.insert(random.below(text.size() + 1), test::random_bytes(random, random.below(3)));
    }
    ASSERT_EQ(split_gpt2(text), split_gpt2_by_regex(text)) << testing::PrintToString(text);
  }
}

TEST(Gpt2Pattern, HandWrittenCodeAgreesWithPcre2OnEveryCodePoint) {
  for (char32_t block = 0; block < 0x110000; block += 0x400) {
    std::string text;
    for (char32_t c = block; c < block + 0x400; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      append_utf8(text, c);
      text += c % 2 == 0 ? " " : "x";
    }
    ASSERT_EQ(split_gpt2(text), split_gpt2_by_regex(text)) << "block " << static_cast<std::uint32_t>(block);
  }
}

TEST(Llama3Pattern, CutsAsPublished) {
  EXPECT_EQ(
      split_by({.pattern = kLlama3Pattern}, "Hello world'S 12345 foo\n\n  bar (x)!\n\n\u00A0y"),
      (Words{"Hello", " world", "'S", " ", "123", "45", " foo", "\n\n", " ", " bar", " (", "x", ")!\n\n", "\u00A0y"}));
}

TEST(Split, InvalidBytesAreWordsOfTheirOwnWhateverThePattern) {
  const Words expected{"a", "\xFF\xFE", " b"};
  EXPECT_EQ(split_gpt2("a\xFF\xFE b"), expected);
  EXPECT_EQ(split_by({.pattern = kLlama3Pattern}, "a\xFF\xFE b"), expected);
  EXPECT_EQ(split_by({.pattern = ".+", .behavior = SplitStep::Behavior::kRemoved, .invert = true}, "a\xFF\xFE b"),
            expected);
}

TEST(Split, IsolatedKeepsMatchesAndWhatLiesBetween) {
  EXPECT_EQ(split_by({.pattern = "[0-9]+"}, "a12b3"), (Words{"a", "12", "b", "3"}));
}

TEST(Split, RemovedDropsMatches) {
  EXPECT_EQ(split_by({.pattern = "[0-9]+", .behavior = SplitStep::Behavior::kRemoved}, "a12b3"), (Words{"a", "b"}));
}

TEST(Split, InvertDropsWhatLiesBetween) {
  EXPECT_EQ(split_by({.pattern = "[0-9]+", .behavior = SplitStep::Behavior::kRemoved, .invert = true}, "a12b3"),
            (Words{"12", "3"}));
}

// Words as Hugging Face's tokenizers give them.
TEST(Split, OneOfSeveralMatchesJoinsItsNeighbour) {
  const auto by = [](Behavior behavior, bool invert = false) {
    return split_by({.pattern = "-", .behavior = behavior, .invert = invert}, "--a-b--c-");
  };
  EXPECT_EQ(by(Behavior::kIsolated), (Words{"-", "-", "a", "-", "b", "-", "-", "c", "-"}));
  EXPECT_EQ(by(Behavior::kRemoved), (Words{"a", "b", "c"}));
  EXPECT_EQ(by(Behavior::kMergedWithPrevious), (Words{"-", "-", "a-", "b-", "-", "c-"}));
  EXPECT_EQ(by(Behavior::kMergedWithNext), (Words{"-", "-a", "-b", "-", "-c", "-"}));
  EXPECT_EQ(by(Behavior::kContiguous), (Words{"--", "a", "-", "b", "--", "c", "-"}));
  EXPECT_EQ(by(Behavior::kMergedWithPrevious, true), (Words{"-", "-a", "-b", "-", "-c", "-"}));
  EXPECT_EQ(by(Behavior::kMergedWithNext, true), (Words{"-", "-", "a-", "b-", "-", "c-"}));
  EXPECT_EQ(by(Behavior::kContiguous, true), (Words{"--", "a", "-", "b", "--", "c", "-"}));
}

TEST(Split, ALiteralPatternIsNoRegex) {
  EXPECT_EQ(split_by({.pattern = "a.", .literal = true}, "aba.a"), (Words{"ab", "a.", "a"}));
}

TEST(Split, EmptyMatchesCutBetweenCharacters) {
  EXPECT_EQ(split_by({.pattern = "x*"}, "aéxxb"), (Words{"a", "é", "xx", "b"}));
}

TEST(ByteLevel, PrefixSpaceIsAddedWhereThereIsNone) {
  const std::vector<PreTokenizerStep> steps{ByteLevelStep{.add_prefix_space = true}};
  EXPECT_EQ(split(steps, "ab c"), (Words{" ab", " c"}));
  EXPECT_EQ(split(steps, " ab c"), (Words{" ab", " c"}));
  EXPECT_EQ(split(steps, ""), Words{});
}

TEST(Sequence, EachStepCutsTheWordsOfTheOneBefore) {
  EXPECT_EQ(split({SplitStep{.pattern = "\\p{N}"}, ByteLevelStep{}}, "it's 12"), (Words{"it", "'s", " ", "1", "2"}));
}

// As in Falcon's files: what follows sees the byte alphabet, where ½ (C2 BD) is "Â½" with a number in it.
TEST(Sequence, WhatFollowsByteLevelSeesTheByteAlphabet) {
  EXPECT_EQ(split({ByteLevelStep{}, SplitStep{.pattern = "\\p{N}"}}, "a 1½"), (Words{"a", "Ġ", "1", "Â", "½"}));
}

TEST(Metaspace, SpellsSpacesAndCutsBeforeEach) {
  EXPECT_EQ(split({MetaspaceStep{.replacement = "▁"}}, "a  bc d"), (Words{"▁a", "▁", "▁bc", "▁d"}));
  EXPECT_EQ(split({MetaspaceStep{.replacement = "▁", .split = false}}, " a b"), (Words{"▁a▁b"}));
}

TEST(Metaspace, PrependsOnlyWhereItsSchemeSays) {
  using Prepend = MetaspaceStep::Prepend;
  const auto first_word = [](Prepend prepend, bool starts_text) {
    std::string first;
    PreTokenizer({MetaspaceStep{"▁", prepend, false}}, "test").split("a", starts_text, [&](std::string_view word) {
      first = word;
    });
    return first;
  };
  EXPECT_EQ(first_word(Prepend::kAlways, false), "▁a");
  EXPECT_EQ(first_word(Prepend::kFirst, true), "▁a");
  EXPECT_EQ(first_word(Prepend::kFirst, false), "a");
  EXPECT_EQ(first_word(Prepend::kNever, true), "a");
}

TEST(RegexLimits, AMegabyteOfSpacesIsNoTrouble) {
  const std::string spaces(1'000'000, ' ');
  EXPECT_EQ(split_by({.pattern = kLlama3Pattern}, spaces + "a").size(), 2u);
}

}  // namespace
}  // namespace nibble::model
