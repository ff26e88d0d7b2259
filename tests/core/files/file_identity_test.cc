#include "core/files/file_identity.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

using test::TempDir;
using test::throws_with;
using test::write_file;

TEST(FileIdentity, IsTheSameByEveryPath) {
  const TempDir temp;
  const std::filesystem::path directory = temp.path();
  write_file(directory / "a", "text");
  write_file(directory / "b", "text");
  std::filesystem::create_symlink("a", directory / "soft");
  std::filesystem::create_hard_link(directory / "a", directory / "hard");
  const std::string a = file_identity(directory / "a");
  const std::filesystem::path around = directory / ".." / directory.filename() / "a";
  for (const std::filesystem::path& path : {directory / "./a", around, directory / "soft", directory / "hard"})
    EXPECT_EQ(file_identity(path), a) << path;
  EXPECT_NE(file_identity(directory / "b"), a) << "the contents are no matter";
}

TEST(FileIdentity, OfNoFileIsItsPath) {
  const TempDir temp;
  const std::filesystem::path directory = temp.path();
  EXPECT_EQ(file_identity(directory / "gone"), file_identity(directory / "deep/.." / "./gone"));
  EXPECT_NE(file_identity(directory / "gone"), file_identity(directory / "gone too"));
  EXPECT_EQ(file_identity("gone"), file_identity(std::filesystem::current_path() / "gone"));
}

TEST(FileIdentity, TellsFilesThatAreGivenTwice) {
  const TempDir temp;
  write_file(temp / "a", "text");
  write_file(temp / "b", "text");
  std::filesystem::create_symlink("a", temp / "link");
  const auto refuse = [&](const char* last) {
    refuse_repeated_files(std::vector<std::string>{temp / "a", temp / "b", temp / last});
  };
  EXPECT_NO_THROW(refuse("c"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { refuse("link"); }, "link' is given twice"));
}

}  // namespace
}  // namespace nibble
