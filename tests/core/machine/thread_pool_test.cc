#include "core/machine/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/sanitizers.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

class ThreadPoolTest : public testing::Test {
 protected:
  void TearDown() override { set_thread_count(0); }
};

TEST_F(ThreadPoolTest, EveryIndexRunsExactlyOnce) {
  for (const std::size_t threads : {1u, 2u, 5u}) {
    set_thread_count(threads);
    EXPECT_EQ(thread_count(), threads);
    for (const std::size_t count : {0u, 1u, 2u, 1000u}) {
      std::vector<std::atomic<int>> runs(count);
      parallel_for(count, [&](std::size_t i) {
        ASSERT_LT(thread_index(), threads);
        ++runs[i];
      });
      for (const auto& run : runs) ASSERT_EQ(run.load(), 1);
    }
  }
}

TEST_F(ThreadPoolTest, TeamsRunSideBySideOnThreadsOfTheirOwn) {
  set_thread_count(3);
  std::atomic<int> inside{0};
  const auto work = [&](std::size_t threads) {
    const ThreadTeam team(threads);
    EXPECT_EQ(thread_count(), threads);
    // Both loops are inside at once, or this never ends: teams do not take turns.
    parallel_for(threads, [&](std::size_t) {
      EXPECT_EQ(thread_count(), threads);
      EXPECT_LT(thread_index(), threads);
      ++inside;
      while (inside < 3) std::this_thread::yield();
    });
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
  EXPECT_EQ(thread_count(), 3u);
  EXPECT_EQ(inside.load(), 3);
}

TEST_F(ThreadPoolTest, ManyShortLoopsInARowLoseNothing) {
  set_thread_count(4);
  std::atomic<std::size_t> sum{0};
  for (int round = 0; round < 5000; ++round) parallel_for(3, [&](std::size_t i) { sum += i; });
  EXPECT_EQ(sum.load(), 5000u * 3u);
}

// More threads than processors, with pauses in which they fall asleep: none may be missed or waited for in vain.
TEST_F(ThreadPoolTest, LoopsBetweenSleepsLoseNothing) {
  for (const std::size_t threads : {2u, 16u}) {
    set_thread_count(threads);
    std::atomic<std::size_t> sum{0};
    std::size_t expected = 0;
    for (std::size_t round = 0; round < 600; ++round) {
      const std::size_t count = 2 + round % 40;
      parallel_for(count, [&](std::size_t i) { sum += i + 1; });
      expected += count * (count + 1) / 2;
      ASSERT_EQ(sum.load(), expected) << "round " << round;
      if (round % 60 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

TEST_F(ThreadPoolTest, AnIdlePoolSleeps) {
  set_thread_count(2);
  parallel_for(100, [](std::size_t) {});
  const std::clock_t before = std::clock();  // processor time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double busy_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(busy_seconds, 0.02);  // spinning would take 0.2
}

TEST_F(ThreadPoolTest, PoolsMayBeReplacedBetweenLoops) {
  for (std::size_t round = 0; round < 50; ++round) {
    set_thread_count(1 + round % 7);
    std::atomic<std::size_t> runs{0};
    parallel_for(20, [&](std::size_t) { ++runs; });
    ASSERT_EQ(runs.load(), 20u);
  }
}

TEST_F(ThreadPoolTest, ANestedLoopRunsInOrderOnItsThread) {
  set_thread_count(3);
  std::atomic<int> wrong{0};
  parallel_for(8, [&](std::size_t) {
    const std::thread::id self = std::this_thread::get_id();
    std::size_t next = 0;
    parallel_for(10, [&](std::size_t i) {
      if (i != next++ || std::this_thread::get_id() != self) ++wrong;
    });
    if (next != 10) ++wrong;
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(ThreadPoolTest, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const std::size_t threads : {1u, 4u}) {
    set_thread_count(threads);
    EXPECT_TRUE(test::throws_with<InvalidArgument>(
        [] { parallel_for(100, [](std::size_t i) { NIBBLE_REQUIRE(i != 7, InvalidArgument, "index {}", i); }); },
        "index 7"));
    std::atomic<int> runs{0};
    parallel_for(10, [&](std::size_t) { ++runs; });
    EXPECT_EQ(runs.load(), 10);
  }
}

TEST_F(ThreadPoolTest, CallsFromSeveralThreadsTakeTurns) {
  set_thread_count(2);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) parallel_for(20, [&](std::size_t) { ++runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs.load(), 4 * 50 * 20);
}

// Everything at once: teams and turns at the pool of the process from several threads, loops in loops, exceptions,
// pauses. What bodies write without atomics, their caller reads: under ThreadSanitizer this shows a
// missing order between them.
TEST_F(ThreadPoolTest, StressFromSeveralThreads) {
  set_thread_count(3);
  const auto work = [](std::size_t seed) {
    std::vector<std::size_t> values(64);
    for (std::size_t round = 0; round < 150; ++round) {
      const std::size_t count = (seed + round) % values.size() + 1;
      parallel_for(count, [&](std::size_t i) {
        std::array<std::size_t, 3> inner{};  // on this thread, except where the loop around it has one index only
        parallel_for(inner.size(), [&](std::size_t j) { inner[j] = j; });
        values[i] = round + i + inner[0] + inner[1] + inner[2];
      });
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], round + i + 3);
      if (round % 16 == 0) {
        EXPECT_THROW(parallel_for(count + 1, [](std::size_t i) { NIBBLE_REQUIRE(i != 1, NumericalError, "one"); }),
                     NumericalError);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
  };
  std::vector<std::thread> callers;
  for (std::size_t c = 0; c < 4; ++c)
    callers.emplace_back([&, c] {
      if (c % 2 == 0) return work(7 * c);
      const ThreadTeam team(c + 1);
      work(7 * c);
    });
  for (std::thread& caller : callers) caller.join();
}

TEST_F(ThreadPoolTest, TilesCoverTheRangeWithoutOverlap) {
  std::vector<std::atomic<int>> runs(103);
  parallel_for_tiles(103, 10, [&](std::size_t begin, std::size_t end) {
    EXPECT_EQ(begin % 10, 0u);
    EXPECT_LE(end - begin, 10u);
    for (std::size_t i = begin; i < end; ++i) ++runs[i];
  });
  for (const auto& run : runs) ASSERT_EQ(run.load(), 1);
}

TEST_F(ThreadPoolTest, UnreasonableCountsAreRefused) {
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { set_thread_count(100000); }, "threads", "100000"));
}

// In a process of its own, whose memory holds the stacks of a few threads only. (Sanitizers map too much to be
// limited.)
TEST_F(ThreadPoolTest, ThreadsThatCannotBeBegunAreAnErrorAndThoseBegunEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fork of several threads is not safe
  if (test::kSanitizer) GTEST_SKIP() << "no limit of memory beside a sanitizer";
  const auto begin_too_many = [] {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = std::uint64_t{2} << 30;
    setrlimit(RLIMIT_AS, &limit);
    try {
      const ThreadTeam team(1024);
    } catch (const InvalidArgument& error) {
      std::fputs(error.what(), stderr);
      _exit(7);
    }
    _exit(0);
  };
  EXPECT_EXIT(begin_too_many(), testing::ExitedWithCode(7), "cannot begin thread [0-9]+ of 1024: .*; ask for fewer");
}

}  // namespace
}  // namespace nibble
