#include "model/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::TempDir;
using test::throws_with;

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

std::uint64_t sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                         [](std::uint64_t total, std::byte byte) { return total + std::to_integer<unsigned>(byte); });
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TempDir directory;
  test::write_file(directory / "file", "some bytes");
  const MappedFile file(directory / "file");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "some bytes");
  EXPECT_NO_THROW(file.check_intact());
}

TEST(MappedFile, OfAnEmptyFileIsEmpty) {
  const TempDir directory;
  test::write_file(directory / "file", "");
  const MappedFile file(directory / "file");
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_NO_THROW(file.check_intact());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TempDir directory;
  EXPECT_TRUE(throws_with<FormatError>([&] { MappedFile file(directory / "absent"); }, "absent", "No such file"));
  EXPECT_TRUE(throws_with<FormatError>([&] { MappedFile file(directory.path()); }, "regular file"));
  const auto fifo = directory / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(throws_with<FormatError>([&] { MappedFile file(fifo); }, "fifo", "regular file"));
}

TEST(MappedFile, ThatIsReleasedReadsTheSameAgain) {
  const TempDir directory;
  test::write_file(directory / "file", std::string(5 * kPage + 7, 'x'));
  const MappedFile file(directory / "file");
  const std::uint64_t before = sum(file.bytes());
  file.release(file.bytes().subspan(kPage + 3, 2 * kPage));
  file.release({});
  EXPECT_EQ(sum(file.bytes()), before);
  EXPECT_NO_THROW(file.check_intact());
}

TEST(MappedFile, ThatShrinksByAFewBytesIsNoticedThoughNoSignalIsRaised) {
  const TempDir directory;
  test::write_file(directory / "file", std::string(100, 'x'));
  const MappedFile file(directory / "file");
  std::filesystem::resize_file(directory / "file", 99);
  EXPECT_TRUE(throws_with<FormatError>([&] { file.check_intact(); }, "100 bytes", "99 now", "cut short"));
}

TEST(MappedFile, ThatIsOverwrittenInPlaceIsNoticed) {
  const TempDir directory;
  const std::filesystem::path path = directory / "file";
  test::write_file(path, std::string(100, 'x'));
  const MappedFile file(path);
  const auto before = std::filesystem::last_write_time(path);
  EXPECT_NO_THROW(file.check_intact());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "other bytes";
  std::filesystem::last_write_time(path, before + std::chrono::milliseconds(10));  // later than clocks of files tick
  EXPECT_EQ(file.bytes()[0], std::byte{'o'}) << "the same file";
  EXPECT_TRUE(throws_with<FormatError>([&] { file.check_intact(); }, path.string(), "written to while in use"));
}

TEST(MappedFile, ThatIsReplacedByNameStaysWhatItWas) {
  const TempDir directory;
  const std::filesystem::path path = directory / "file", other = directory / "other";
  test::write_file(path, std::string(100, 'x'));
  const MappedFile file(path);
  test::write_file(other, std::string(50, 'y'));
  std::filesystem::rename(other, path);
  EXPECT_EQ(sum(file.bytes()), 100 * 'x');
  EXPECT_NO_THROW(file.check_intact());
}

TEST(MappedFile, ThatShrankStaysMarkedAfterItGrewBack) {
  const TempDir directory;
  const std::size_t size = 8 * kPage;
  test::write_file(directory / "file", std::string(size, 'x'));
  const MappedFile file(directory / "file");
  std::filesystem::resize_file(directory / "file", kPage);
  EXPECT_EQ(sum(file.bytes()), kPage * 'x') << "the rest reads as zeros";
  std::filesystem::resize_file(directory / "file", size);
  EXPECT_TRUE(throws_with<FormatError>([&] { file.check_intact(); }, (directory / "file").string()));
}

TEST(MappedFile, ThatShrinksIsSurvivedByManyThreadsReadingIt) {
  const TempDir directory;
  test::write_file(directory / "file", std::string(64 * kPage, 'x'));
  const MappedFile file(directory / "file");
  std::filesystem::resize_file(directory / "file", 0);
  std::vector<std::thread> readers;
  std::atomic<int> noticed = 0;
  for (std::size_t t = 0; t < 8; ++t) {
    readers.emplace_back([&, t] {
      EXPECT_EQ(sum(file.bytes().subspan((7 - t) * 8 * kPage)), 0u);
      if (throws_with<FormatError>([&] { file.check_intact(); }, "cut short")) ++noticed;
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(noticed, 8);
}

TEST(MappedFile, ThatIsLostLeavesOthersAndLaterOnesIntact) {
  const TempDir directory;
  test::write_file(directory / "lost", std::string(2 * kPage, 'x'));
  test::write_file(directory / "kept", std::string(2 * kPage, 'y'));
  const MappedFile kept(directory / "kept");
  {
    const MappedFile lost(directory / "lost");
    std::filesystem::resize_file(directory / "lost", 0);
    EXPECT_EQ(sum(lost.bytes()), 0u);
    EXPECT_THROW(lost.check_intact(), FormatError);
  }
  test::write_file(directory / "lost", std::string(2 * kPage, 'z'));
  const MappedFile later(directory / "lost");  // takes over the slot of the one that is gone
  EXPECT_EQ(sum(later.bytes()), 2 * kPage * 'z');
  EXPECT_EQ(sum(kept.bytes()), 2 * kPage * 'y');
  EXPECT_NO_THROW(later.check_intact());
  EXPECT_NO_THROW(kept.check_intact());
}

TEST(MappedFileDeathTest, LeavesFaultsOfOtherMappingsToTheHandlerBefore) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const TempDir directory;
  test::write_file(directory / "ours", "x");
  test::write_file(directory / "other", std::string(2 * kPage, 'x'));
  const MappedFile ours(directory / "ours");
  const auto read_beyond_the_end = [&] {
    const int other = open((directory / "other").c_str(), O_RDONLY);
    const void* data = mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, other, 0);
    std::filesystem::resize_file(directory / "other", 0);
    std::exit(static_cast<int>(*static_cast<const volatile char*>(data)) * 0);  // 0, were the fault swallowed
  };
  EXPECT_DEATH(read_beyond_the_end(), "");
  EXPECT_DEATH((raise(SIGBUS), std::exit(0)), "");
}

}  // namespace
}  // namespace nibble::model
