#include "datasets/byte_stream.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/datasets/compress.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::datasets {
namespace {

using test::throws_with;

class ByteStreams : public testing::Test {
 protected:
  std::string read(std::string_view name, std::string_view bytes, std::size_t step = 1000) {
    test::write_file(dir_ / name, bytes);
    ByteStream stream(dir_ / name);
    std::string text, piece(step, '\0');
    while (const std::size_t count = stream.read(piece)) text.append(piece, 0, count);
    EXPECT_EQ(stream.read(piece), 0u) << "the end stays the end";
    EXPECT_EQ(stream.file_bytes_read(), bytes.size());
    return text;
  }
  test::TempDir dir_;
};

std::string random_lines(std::size_t count) {
  Random random(1);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "line " + std::to_string(random.below(1'000'000)) + "\n";
  return text;
}

TEST_F(ByteStreams, PlainFilesComeBackAsTheyAre) {
  const std::string text = random_lines(20'000);
  for (const std::size_t step : {1u, 4096u, 1u << 20}) EXPECT_EQ(read("a.txt", text, step), text);
  EXPECT_EQ(read("a.txt", ""), "");
}

TEST_F(ByteStreams, CompressedFilesComeBackAsTheTextTheyHold) {
  const std::string text = random_lines(20'000);
  for (const std::size_t step : {7u, 4096u, 1u << 20}) {
    EXPECT_EQ(read("a.gz", test::gzip(text), step), text);
    EXPECT_EQ(read("a.zst", test::zstd(text), step), text);
    EXPECT_EQ(read("a.zst", test::zstd(text, false), step), text);
  }
  EXPECT_EQ(read("a.gz", test::gzip("")), "");
  EXPECT_EQ(read("a.zst", test::zstd("")), "");
}

TEST_F(ByteStreams, SeveralMembersOrFramesAreOneText) {
  EXPECT_EQ(read("a.gz", test::gzip("one ") + test::gzip("") + test::gzip("two")), "one two");
  EXPECT_EQ(read("a.zst", test::zstd("one ") + test::zstd("") + test::zstd("two")), "one two");
}

TEST_F(ByteStreams, FilesCutOffAnywhereAreRefused) {
  const std::string text = random_lines(40), gz = test::gzip(text), zst = test::zstd(text);
  for (std::size_t size = 0; size < gz.size(); ++size)
    ASSERT_TRUE(throws_with<FormatError>([&] { read("a.gz", gz.substr(0, size)); }, "a.gz", "cut off")) << size;
  for (std::size_t size = 0; size < zst.size(); ++size)
    ASSERT_TRUE(throws_with<FormatError>([&] { read("a.zst", zst.substr(0, size)); }, "a.zst", "cut off")) << size;
}

TEST_F(ByteStreams, LongFilesCutOffAreRefused) {
  const std::string text = random_lines(100'000), gz = test::gzip(text), zst = test::zstd(text);
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.gz", gz.substr(0, gz.size() / 2)); }, "cut off"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", zst.substr(0, zst.size() / 2)); }, "cut off"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", zst.substr(0, zst.size() - 1)); }, "cut off"));
}

TEST_F(ByteStreams, CorruptFilesAreRefused) {
  const std::string text = random_lines(4000);
  std::string gz = test::gzip(text), zst = test::zstd(text);
  gz[gz.size() - 6] = static_cast<char>(gz[gz.size() - 6] ^ 1);      // the checksum
  zst[zst.size() - 2] = static_cast<char>(zst[zst.size() - 2] ^ 1);  // likewise
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.gz", gz); }, "a.gz", "corrupt"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", zst); }, "a.zst", "checksum"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.gz", "plain text"); }, "a.gz", "not a gzip file"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", "plain text"); }, "a.zst", "not a zstd file"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.gz", test::gzip(text) + "garbage"); }, "a.gz"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", test::zstd(text) + "garbage"); }, "a.zst"));
}

// RFC 8878, 3.1.1: a frame of one raw block, with a window of 2^log bytes.
std::string frame_of(int log, std::string_view text) {
  const char window = static_cast<char>((log - 10) << 3), block = static_cast<char>(text.size() << 3 | 1);
  return std::string("\x28\xB5\x2F\xFD\0", 5) + window + block + std::string(2, '\0') + std::string(text);
}

TEST_F(ByteStreams, WindowsBeyondTheLimitAreRefusedWithWhatToDo) {
  EXPECT_EQ(read("a.zst", frame_of(27, "one")), "one");
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", frame_of(28, "one")); }, "a.zst", "zstd --long",
                                       "more than 128 MiB", "--long=27 at most"));
}

TEST_F(ByteStreams, DecompressionBombsAreRefused) {
  const std::string zeros(std::size_t{80} << 20, '\0');  // packs to about 1/1000
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.gz", test::gzip(zeros), 1 << 20); }, "a.gz", "expand"));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("a.zst", test::zstd(zeros), 1 << 20); }, "a.zst", "expand"));
}

TEST_F(ByteStreams, MissingFilesAndDirectoriesAreRefused) {
  EXPECT_TRUE(throws_with<FormatError>([&] { ByteStream(dir_ / "no.txt"); }, "no.txt"));
  EXPECT_TRUE(throws_with<FormatError>([&] { ByteStream(dir_.path()); }, dir_.path().string(), "regular"));
}

TEST_F(ByteStreams, FilesThatCannotBeOpenedAreRefusedWithTheReason) {
  test::write_file(dir_ / "a.txt", "text");
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{0, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);  // file modes do not keep root out
  EXPECT_TRUE(throws_with<FormatError>([&] { ByteStream(dir_ / "a.txt"); }, "a.txt': Too many open files"));
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

}  // namespace
}  // namespace nibble::datasets
