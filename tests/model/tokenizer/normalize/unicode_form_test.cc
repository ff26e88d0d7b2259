#include "model/tokenizer/normalize/unicode_form.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/random.h"
#include "tests/model/tokenizer/random_text.h"

namespace nibble::model {
namespace {

using Form = UnicodeFormStep::Form;

std::string to(Form form, std::string_view text) { return UnicodeForm(form).apply(text); }

// From UAX #15 and its conformance test's first part.
TEST(UnicodeForm, ComposesAndDecomposes) {
  EXPECT_EQ(to(Form::kNfc, "e\u0301 \u1E0A\u0323 \u212B \u1100\u1161\u11A8"), "\u00E9 \u1E0C\u0307 \u00C5 \uAC01");
  EXPECT_EQ(to(Form::kNfd, "\u00E9 \u1E0A\u0323 \uAC01"), "e\u0301 D\u0323\u0307 \u1100\u1161\u11A8");
  EXPECT_EQ(to(Form::kNfkc, "\uFB01 \u2460 \uFF76\uFF9E \u1E9B\u0323 ½"), "fi 1 \u30AC \u1E69 1\u20442");
  EXPECT_EQ(to(Form::kNfkd, "\u1E9B\u0323 \uFDFA"), "s\u0323\u0307 صلى الله عليه وسلم");
}

TEST(UnicodeForm, ExclusionsStayDecomposed) {
  EXPECT_EQ(to(Form::kNfc, "\u0958"), "\u0915\u093C");  // in the list of exclusions
  EXPECT_EQ(to(Form::kNfc, "\u0344"), "\u0308\u0301");  // begins with a mark
  EXPECT_EQ(to(Form::kNfc, "\u0915\u093C"), "\u0915\u093C");
}

TEST(UnicodeForm, MarksAreSortedByClassOnly) {
  EXPECT_EQ(to(Form::kNfc, "a\u0301\u0323\u0300"), "\u1EA1\u0301\u0300");
  EXPECT_EQ(to(Form::kNfd, "\u0301\u0323x"), "\u0323\u0301x");
}

// Hugging Face's tokenizers have the tables of Unicode 12.0 here.
TEST(UnicodeForm, DecompositionsOfLaterVersionsAreNotMade) {
  EXPECT_EQ(to(Form::kNfkc, "\u32FF\U0001FBF0"), "\u32FF\U0001FBF0");
  EXPECT_EQ(to(Form::kNfkc, "\u32FE"), "\u30F2");
}

// And those of 9.0 for marks: what came later is sorted past nothing, and parts what stands around it.
TEST(UnicodeForm, MarksOfLaterVersionsAreCharactersLikeAnyOther) {
  for (const std::string mark : {"\u0D3B", "\u0EBA", "\u1ABF", "\u08D3", "\u1DFA", "\U0001E4EF"}) {
    for (const Form form : {Form::kNfc, Form::kNfd, Form::kNfkc, Form::kNfkd}) {
      EXPECT_EQ(to(form, "x\u0345" + mark + "\u0334"), "x\u0345" + mark + "\u0334");
      EXPECT_EQ(to(form, "e" + mark + "\u0301"), "e" + mark + "\u0301");
    }
  }
  EXPECT_EQ(to(Form::kNfc, "x\u0345\u1ABD\u0D4D"), "x\u0D4D\u1ABD\u0345");  // of 7.0 and before
}

TEST(UnicodeForm, BytesThatAreNotUtf8Stay) {
  EXPECT_EQ(to(Form::kNfc, "e\xFF\xCC\x81 e\u0301\xC3"), "e\xFF\u0301 \u00E9\xC3");
}

TEST(UnicodeForm, IsIdempotentAndKeepsPiecesApart) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string text = test::random_text(random, 1 + random.below(30));
    for (const Form form : {Form::kNfc, Form::kNfd, Form::kNfkc, Form::kNfkd}) {
      const std::string once = to(form, text);
      EXPECT_EQ(to(form, once), once);
      EXPECT_EQ(to(form, text + "\n" + text), once + "\n" + once);  // a line's end joins nothing
    }
    EXPECT_EQ(to(Form::kNfd, to(Form::kNfc, text)), to(Form::kNfd, text));
  }
}

// Sorting by insertion would take minutes for this many marks out of order.
TEST(UnicodeForm, ManyMarksInARowAreNoTrouble) {
  std::string marks;
  for (int i = 0; i < 100'000; ++i) marks += "\u0301\u0323";
  const auto start = std::chrono::steady_clock::now();
  const std::string sorted = to(Form::kNfd, "a" + marks);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(sorted.substr(0, 5), "a\u0323\u0323");
  EXPECT_EQ(sorted.size(), 1 + marks.size());
}

TEST(Lowercase, MapsEveryCharacterAlone) { EXPECT_EQ(lowercase("ÀΣ\u0130Ω\u01C5ẞ\xFFZ"), "àσi\u0307ω\u01C6ß\xFFz"); }

TEST(StripAccents, DropsMarks) { EXPECT_EQ(strip_accents("e\u0301a\u0903\u20DDé\xFF"), "eaé\xFF"); }

// As Hugging Face's tokenizers know them: Unicode 9.0's.
TEST(StripAccents, DropsMarksOfOneVersion) {
  EXPECT_EQ(strip_accents("a\u1ABE\u1ABF\u0D3B\u1CF2\U00011A01"), "a\u1ABF\u0D3B\U00011A01");
}

}  // namespace
}  // namespace nibble::model
