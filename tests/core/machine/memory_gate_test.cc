#include "core/machine/memory_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace nibble {
namespace {

TEST(MemoryGate, HoldsNoMoreThanItsLimit) {
  constexpr std::uint64_t kLimit = 10;
  MemoryGate gate(kLimit);
  std::atomic<std::uint64_t> held = 0, most = 0, passed = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t units = 3 + t;  // any two fit but the two largest, and no three
        const MemoryGate::Pass pass(gate, units);
        const std::uint64_t now = held += units;
        std::uint64_t before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        std::this_thread::yield();
        held -= units;
        ++passed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 800u);
  EXPECT_LE(most, kLimit);
}

TEST(MemoryGate, LetsPassAloneWhatIsLargerThanItsLimit) {
  MemoryGate gate(10);
  std::atomic<bool> through = false;
  std::thread other;
  {
    const MemoryGate::Pass large(gate, 1000);
    other = std::thread([&] {
      const MemoryGate::Pass small(gate, 1);
      through = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(through);
  }
  other.join();
  EXPECT_TRUE(through);
}

}  // namespace
}  // namespace nibble
