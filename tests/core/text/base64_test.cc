#include "core/text/base64.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace nibble {
namespace {

// RFC 4648, section 10.
TEST(Base64, DecodesTheStandardsExamples) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYg=="), "foob");
  EXPECT_EQ(decode_base64("Zm9vYmE="), "fooba");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
}

TEST(Base64, DecodesEveryByte) {
  EXPECT_EQ(decode_base64("AP8="), std::string("\0\xFF", 2));
  EXPECT_EQ(decode_base64("++//"), "\xFB\xEF\xFF");
}

TEST(Base64, RefusesWhatStandsForNoBytes) {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm-_", "Zh==", "Zm9=", " Zg="})
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace nibble
