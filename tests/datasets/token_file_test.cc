#include "datasets/token_file.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::datasets {
namespace {

using test::throws_with;
using testing::ElementsAre;
using namespace std::string_literals;

class TokenFile : public testing::Test {
 protected:
  std::vector<std::uint32_t> read(std::string_view name, std::string_view bytes, std::size_t vocabulary) {
    test::write_file(dir_ / name, bytes);
    return read_token_file(dir_ / name, vocabulary);
  }
  test::TempDir dir_;
};

TEST_F(TokenFile, SixteenBitIdsAreLittleEndian) {
  EXPECT_THAT(read("a.u16", "\x01\x00\x02\x01\xFF\xFF"s, 65536), ElementsAre(1, 0x102, 0xFFFF));
}

TEST_F(TokenFile, ThirtyTwoBitIdsAreLittleEndian) {
  EXPECT_THAT(read("a.u32", "\x01\x00\x00\x00\x04\x03\x02\x01"s, 1u << 31), ElementsAre(1, 0x01020304));
}

TEST_F(TokenFile, FilesLargerThanOnePieceAreReadInOrder) {
  std::string bytes;
  for (unsigned i = 0; i < 100'000; ++i) bytes += {static_cast<char>(i % 251), static_cast<char>(i % 7)};
  const auto ids = read("a.u16", bytes, 65536);
  ASSERT_EQ(ids.size(), 100'000u);
  for (unsigned i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], i % 251 + 256 * (i % 7)) << i;
}

TEST_F(TokenFile, NoMoreIdsAreReadThanAskedFor) {
  test::write_file(dir_ / "a.u16", "\x01\x00\x02\x00\xFF\xFF"s);
  EXPECT_THAT(read_token_file(dir_ / "a.u16", 9, 2), ElementsAre(1, 2));
  EXPECT_THAT(read_token_file(dir_ / "a.u16", 65536, 7), ElementsAre(1, 2, 65535));
}

TEST_F(TokenFile, EmptyFileIsRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.u16", "", 9); }, "a.u16", "empty"));
}

TEST_F(TokenFile, OddSizesAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.u16", "abc", 65536); }, "a.u16", "multiple of 2", "got 3"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.u32", "abcdef", 65536); }, "multiple of 4", "got 6"));
}

TEST_F(TokenFile, AnIdOutsideTheVocabularyIsNamedWithItsIndex) {
  EXPECT_THAT(read("a.u16", "\x01\x00\x08\x00"s, 9), ElementsAre(1, 8));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.u16", "\x01\x00\x09\x00"s, 9); }, "id 9", "index 1", "of 9"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.u32", "\xFF\xFF\xFF\xFF", 9); }, "id 4294967295", "index 0"));
}

TEST_F(TokenFile, UnknownExtensionsAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.bin", "ab", 65536); }, "a.bin", ".u16", ".u32", "'.bin'"));
}

TEST_F(TokenFile, MissingFilesAndDirectoriesAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { read_token_file(dir_ / "no.u16", 9); }, "no.u16"));
  std::filesystem::create_directory(dir_ / "d.u16");
  EXPECT_TRUE(throws_with<FormatError>([&] { read_token_file(dir_ / "d.u16", 9); }, "d.u16"));
}

}  // namespace
}  // namespace nibble::datasets
