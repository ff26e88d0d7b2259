#include "datasets/text_source.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::datasets {
namespace {

using test::throws_with;

class TextSource : public testing::Test {
 protected:
  std::string read(std::string_view bytes, bool hf_join, std::string_view name = "a.txt") {
    test::write_file(dir_ / name, bytes);
    return read_evaluation_text(dir_ / name, hf_join);
  }
  test::TempDir dir_;
};

TEST_F(TextSource, PlainTextComesBackByteForByte) {
  const std::string text = "\xEF\xBB\xBFone\r\n\n two \n\xE2\x82\xAC";
  EXPECT_EQ(read(text, false), text);
  EXPECT_EQ(read(text, false, "a.raw"), text);
}

TEST_F(TextSource, JoinedRowsFollowTheHuggingFaceRecipe) {
  // As rows: "", " = Title = \n", "", " Text . \n" — joined by "\n\n".
  EXPECT_EQ(read(" \n = Title = \n \n Text . \n", true), "\n\n = Title = \n\n\n\n\n Text . \n");
}

TEST_F(TextSource, JoiningKeepsALastRowWithoutNewline) {
  EXPECT_EQ(read("a\nb", true), "a\n\n\nb");
  EXPECT_EQ(read("a", true), "a");
}

TEST_F(TextSource, JoiningTreatsAnyRowOfWhiteSpaceAsEmpty) {
  EXPECT_EQ(read("a\n\n\t \nb\n", true), "a\n\n\n\n\n\n\nb\n");
}

TEST_F(TextSource, EmptyFileIsRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read("", false); }, "a.txt", "empty"));
}

TEST_F(TextSource, InvalidUtf8IsRefusedWithItsPosition) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read("abc\xFF", false); }, "a.txt", "UTF-8", "byte 3", "0xff"));
}

TEST_F(TextSource, OtherKindsOfFilesAreRefused) {
  for (const std::string_view name : {"a.jsonl", "a.json", "a.ndjson", "a.txt.gz", "a.txt.zst"})
    EXPECT_TRUE(throws_with<FormatError>([&] { read("{}", false, name); }, name, "plain text"));
}

TEST_F(TextSource, MissingFilesAndDirectoriesAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read_evaluation_text(dir_ / "no.txt", false); }, "no.txt"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read_evaluation_text(dir_.path(), false); }, dir_.path().string()));
}

}  // namespace
}  // namespace nibble::datasets
