#include "core/files/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

TEST(OutputFile, TheFinalNameAppearsOnlyAtCommit) {
  const test::TempDir dir;
  {
    OutputFile file(dir / "a.bin");
    file.write("hello ");
    file.write("world");
    EXPECT_EQ(file.bytes_written(), 11u);
    EXPECT_FALSE(std::filesystem::exists(dir / "a.bin"));
    EXPECT_TRUE(std::filesystem::exists(dir / "a.bin.partial"));
    file.commit();
  }
  EXPECT_EQ(test::read_file(dir / "a.bin"), "hello world");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.bin.partial"));
}

// Pieces of a long one are on their way to the disk before it is complete; no wait for the disk changes no byte.
TEST(OutputFile, IsTheSameFlushedOrNot) {
  const test::TempDir dir;
  std::string piece(std::size_t{5} << 20, '\0'), all;
  for (const Flush flush : {Flush::kYes, Flush::kNo}) {
    OutputFile file(dir / "a.bin", flush);
    all.clear();
    for (char i = 'a'; i < 'i'; ++i) {
      std::fill(piece.begin(), piece.end(), i);
      file.write(piece);
      all += piece;
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "a.bin"));
    file.commit();
    EXPECT_TRUE(test::read_file(dir / "a.bin") == all);
    EXPECT_FALSE(std::filesystem::exists(dir / "a.bin.partial"));
    std::filesystem::remove(dir / "a.bin");
  }
}

TEST(OutputFile, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  const test::TempDir dir;
  test::write_file(dir / "a.bin", "old");
  { OutputFile(dir / "a.bin").write("new"); }
  EXPECT_EQ(test::read_file(dir / "a.bin"), "old");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.bin.partial"));
}

TEST(OutputFile, AFailedRenameLeavesNothing) {
  const test::TempDir dir;
  std::filesystem::create_directories(dir / "a.bin/in the way");
  OutputFile file(dir / "a.bin");
  file.write("new");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { file.commit(); }, "cannot rename", "a.bin", "directory"));
  EXPECT_FALSE(std::filesystem::exists(dir / "a.bin.partial"));
  EXPECT_TRUE(std::filesystem::exists(dir / "a.bin/in the way"));
}

TEST(OutputFile, NamesTheFileAndTheReason) {
  const test::TempDir dir;
  EXPECT_TRUE(
      test::throws_with<FormatError>([&] { OutputFile(dir / "absent/a.bin"); }, "absent/a.bin", "No such file"));
}

TEST(OutputFile, AFullDiskIsAnError) {
  const test::TempDir dir;
  std::filesystem::create_symlink("/dev/full", dir / "a.bin.partial");
  OutputFile file(dir / "a.bin");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { file.write("x"); }, "a.bin", "No space left"));
  try {
    file.write("x");
  } catch (const FormatError& error) {
    EXPECT_EQ(error.code, std::errc::no_space_on_device);
  }
}

TEST(ReadTextFile, RefusesWhatIsTooLongOrAbsent) {
  const test::TempDir dir;
  test::write_file(dir / "t", std::string(100, 'x'));
  EXPECT_EQ(read_text_file(dir / "t", 100).size(), 100u);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { read_text_file(dir / "t", 99); }, "at most 99 bytes"));
  EXPECT_TRUE(test::throws_with<FormatError>([&] { read_text_file(dir / "u", 99); }, "cannot open", "u'"));
}

TEST(OutputFile, TwoAtOnceAreRefusedAndTheFirstOneIsWhole) {
  const test::TempDir dir;
  OutputFile first(dir / "a.bin");
  first.write("all of the first");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { OutputFile(dir / "a.bin").write("the second"); },
                                             "a.bin': another process is writing it"));
  first.commit();
  EXPECT_EQ(test::read_file(dir / "a.bin"), "all of the first");
  OutputFile again(dir / "a.bin");
  again.write("the second");
  again.commit();
  EXPECT_EQ(test::read_file(dir / "a.bin"), "the second");
}

// What a killed run left is longer than what comes instead.
TEST(OutputFile, NothingIsLeftOfAnEarlierPartialFile) {
  const test::TempDir dir;
  test::write_file(dir / "a.bin.partial", "of a run that was killed");
  OutputFile file(dir / "a.bin");
  file.write("new");
  file.commit();
  EXPECT_EQ(test::read_file(dir / "a.bin"), "new");
}

TEST(OutputFile, ReplacesTheFileOfALinkAndNoPipe) {
  const test::TempDir dir;
  test::write_file(dir / "there.bin", "old");
  std::filesystem::create_symlink("there.bin", dir / "link.bin");
  write_file(dir / "link.bin", std::string_view("new"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link.bin"));
  EXPECT_EQ(test::read_file(dir / "there.bin"), "new");
  ASSERT_EQ(mkfifo((dir / "pipe.bin").c_str(), 0600), 0);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { const OutputFile file(dir / "pipe.bin"); },
                                                 "pipe.bin' exists and is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(dir / "pipe.bin"));
}

TEST(OutputFile, LeavesWhatIsThereOrComesMeanwhileWhereNothingIsToBeReplaced) {
  const test::TempDir dir;
  const auto keeping = [&] {
    return std::make_unique<OutputFile>(dir / "a.bin", Flush::kNo, Lock::kYes, Replace::kNo);
  };
  const auto file = keeping();
  file->write("new");
  test::write_file(dir / "a.bin", "came meanwhile");
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { file->commit(); }, "a.bin' exists; choose another"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>(keeping, "a.bin' exists; choose another"));
  EXPECT_EQ(test::read_file(dir / "a.bin"), "came meanwhile");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.bin.partial"));
  std::filesystem::remove(dir / "a.bin");
  const auto again = keeping();
  again->write("new");
  again->commit();
  EXPECT_EQ(test::read_file(dir / "a.bin"), "new");
  EXPECT_FALSE(std::filesystem::exists(dir / "a.bin.partial"));
}

// As before, a link that leads nowhere becomes the file: nothing is lost with it.
TEST(OutputFile, TakesTheNameOfALinkThatLeadsNowhere) {
  const test::TempDir dir;
  std::filesystem::create_symlink("absent.bin", dir / "a.bin");
  OutputFile file(dir / "a.bin", Flush::kYes, Lock::kYes, Replace::kNo);
  file.write("new");
  file.commit();
  EXPECT_EQ(test::read_file(dir / "a.bin"), "new");
}

}  // namespace
}  // namespace nibble
