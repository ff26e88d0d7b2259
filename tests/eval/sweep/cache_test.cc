#include "eval/sweep/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

struct CacheTest : testing::Test {
  test::TempDir temp;
  const std::string a_ = key('a'), b_ = key('b'), c_ = key('c'), d_ = key('d');
  static std::string key(char digit) { return "calibration-" + std::string(32, digit); }
  std::atomic<int> made{0};
  std::function<void(const std::filesystem::path&)> writer(std::size_t bytes) {
    return [this, bytes](const std::filesystem::path& directory) {
      ++made;
      test::write_file(directory / "data", std::string(bytes, 'x'));
    };
  }
};

TEST_F(CacheTest, MakesAnEntryOnce) {
  Cache cache(temp / "cache", 1 << 20);
  for (int i = 0; i < 3; ++i) {
    const Cache::Entry entry = cache.get(a_, writer(10));
    EXPECT_EQ(test::read_file(entry.directory / "data").size(), 10u);
  }
  EXPECT_EQ(made, 1);
}

TEST_F(CacheTest, OfManyThatAskAtOnceOneMakesIt) {
  Cache cache(temp / "cache", 1 << 20);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { cache.get(a_, writer(10)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
}

TEST_F(CacheTest, WhatFailedIsMadeAgainFromWhatIsThere) {
  Cache cache(temp / "cache", 1 << 20);
  EXPECT_THROW(cache.get(a_,
                         [](const std::filesystem::path& directory) {
                           test::write_file(directory / "half", "done");
                           throw std::runtime_error("killed");
                         }),
               std::runtime_error);
  EXPECT_FALSE(cache.has(a_));
  const auto entry = cache.get(a_, writer(1));
  EXPECT_EQ(test::read_file(entry.directory / "half"), "done");
}

TEST_F(CacheTest, ForgetsWhatWasNotUsedForLongestButNothingInUse) {
  Cache cache(temp / "cache", 2500);
  cache.get(a_, writer(1000));
  cache.get(b_, writer(1000));
  cache.get(a_, writer(1000));  // used again: b is the oldest now
  cache.get(c_, writer(1000));
  EXPECT_TRUE(cache.has(a_));
  EXPECT_FALSE(cache.has(b_));
  EXPECT_TRUE(cache.has(c_));

  const auto used = cache.get(a_, writer(1000));
  cache.get(d_, writer(2000));
  EXPECT_TRUE(cache.has(a_));
  EXPECT_FALSE(cache.has(c_));
}

TEST_F(CacheTest, WhatAKilledRunHadHalfRemovedGoes) {
  const std::filesystem::path directory = temp / "cache";
  std::filesystem::create_directories(directory / (b_ + ".removed"));
  std::filesystem::create_directories(directory / "thesis.removed");
  Cache cache(directory, 1500);
  cache.get(a_, writer(1000));
  EXPECT_FALSE(std::filesystem::exists(directory / (b_ + ".removed")));
  EXPECT_TRUE(std::filesystem::exists(directory / "thesis.removed"));
  EXPECT_TRUE(cache.has(a_));
}

// --cache may name a directory that holds more than a cache.
TEST_F(CacheTest, LeavesAloneWhatIsNotItsOwn) {
  const std::filesystem::path directory = temp / "cache";
  const auto others = {"thesis", "calibration-old", "calibration", "-0123456789abcdef0123456789abcdef"};
  const auto write = [](const std::filesystem::path& other) {
    std::filesystem::create_directories(other);
    test::write_file(other / "data", std::string(5000, 'x'));
  };
  for (const char* other : others) write(directory / other);
  write(temp / "outside");
  std::filesystem::create_directory_symlink(temp / "outside", directory / d_);
  Cache cache(directory, 1500);
  cache.get(a_, writer(1000));
  EXPECT_TRUE(cache.has(a_)) << "what is not its own does not count either";
  cache.get(b_, writer(1000));
  EXPECT_FALSE(cache.has(a_));
  for (const char* other : others) EXPECT_EQ(test::read_file(directory / other / "data").size(), 5000u) << other;
  EXPECT_EQ(test::read_file(temp / "outside" / "data").size(), 5000u);
  EXPECT_THROW(cache.get("thesis", writer(1)), InvalidArgument);
}

}  // namespace
}  // namespace nibble::eval
