#include "eval/sweep/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/support/files.h"

namespace nibble::eval {
namespace {

struct CacheTest : testing::Test {
  test::TempDir temp;
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
    const Cache::Entry entry = cache.get("a", writer(10));
    EXPECT_EQ(test::read_file(entry.directory / "data").size(), 10u);
  }
  EXPECT_EQ(made, 1);
}

TEST_F(CacheTest, OfManyThatAskAtOnceOneMakesIt) {
  Cache cache(temp / "cache", 1 << 20);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { cache.get("a", writer(10)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
}

TEST_F(CacheTest, WhatFailedIsMadeAgainFromWhatIsThere) {
  Cache cache(temp / "cache", 1 << 20);
  EXPECT_THROW(cache.get("a",
                         [](const std::filesystem::path& directory) {
                           test::write_file(directory / "half", "done");
                           throw std::runtime_error("killed");
                         }),
               std::runtime_error);
  EXPECT_FALSE(cache.has("a"));
  const auto entry = cache.get("a", writer(1));
  EXPECT_EQ(test::read_file(entry.directory / "half"), "done");
}

TEST_F(CacheTest, ForgetsWhatWasNotUsedForLongestButNothingInUse) {
  Cache cache(temp / "cache", 2500);
  cache.get("a", writer(1000));
  cache.get("b", writer(1000));
  cache.get("a", writer(1000));  // used again: b is the oldest now
  cache.get("c", writer(1000));
  EXPECT_TRUE(cache.has("a"));
  EXPECT_FALSE(cache.has("b"));
  EXPECT_TRUE(cache.has("c"));

  const auto used = cache.get("a", writer(1000));
  cache.get("d", writer(2000));
  EXPECT_TRUE(cache.has("a"));
  EXPECT_FALSE(cache.has("c"));
}

}  // namespace
}  // namespace nibble::eval
