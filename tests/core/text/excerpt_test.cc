#include "core/text/excerpt.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(Excerpt, KeepsWhatIsShortAndCutsWhatIsLong) {
  EXPECT_EQ(excerpt(""), "");
  EXPECT_EQ(excerpt("model.layers.0"), "model.layers.0");
  EXPECT_EQ(excerpt(std::string(80, 'a')), std::string(80, 'a'));
  EXPECT_EQ(excerpt(std::string(81, 'a')), std::string(80, 'a') + "…");
  EXPECT_EQ(excerpt("abcdef", 3), "abc…");
}

TEST(Excerpt, CutsBetweenCharacters) {
  EXPECT_EQ(excerpt("aéé", 3), "aé…");
  EXPECT_EQ(excerpt("aéé", 4), "aé…");  // the second é has bytes 3 and 4
  EXPECT_EQ(excerpt("aéé", 5), "aéé");
}

TEST(Excerpt, ShowsNoControlCharactersAndNoBrokenBytes) {
  EXPECT_EQ(excerpt("a\x1b[31m\n\x7f"), "a?[31m??");
  EXPECT_EQ(excerpt("a\u009b31m"), "a?31m") << "some terminals begin a sequence so";
  EXPECT_EQ(printable("a\x1b[31m\nb\r\u0085\xff é"), "a?[31m\nb??? é");
  EXPECT_EQ(excerpt("a\xff\xc3"), "a??");
  EXPECT_EQ(excerpt("a\xff\xff\xff", 2), "a?…");
}

TEST(Excerpt, InQuotes) { EXPECT_EQ(in_quotes("abcdef", 3), "'abc…'"); }

}  // namespace
}  // namespace nibble
