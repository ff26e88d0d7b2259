// What a parallel_for() costs beyond its work: loops with empty bodies, one index per thread, following each other at
// once, after 5 microseconds of work on the calling thread (the pool is still awake), and after 1 millisecond of sleep
// (its threads have gone to sleep). Arguments: threads (0: all), loops.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/thread_pool.h"
#include "tests/bench/measure.h"

namespace {

using namespace nibble;
using Clock = std::chrono::steady_clock;

void work_for(std::chrono::microseconds duration) {
  const auto end = Clock::now() + duration;
  while (Clock::now() < end) {
  }
}

void report(const char* what, std::size_t loops, std::chrono::microseconds between, bool asleep) {
  const auto run = [&](bool with_loop) {
    return bench::measure(7,
                          [&] {
                            for (std::size_t i = 0; i < loops; ++i) {
                              if (with_loop) parallel_for(thread_count(), [](std::size_t) {});
                              asleep ? std::this_thread::sleep_for(between) : work_for(between);
                            }
                          })
        .median_seconds;
  };
  const double extra = run(true) - run(false);
  fmt::print("{:<28} {:8.2f} microseconds per loop\n", what, extra / static_cast<double>(loops) * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t loops = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 20000;
  fmt::print("{} threads\n", thread_count());
  report("one after the other", loops, std::chrono::microseconds(0), false);
  report("after 5 us of serial work", loops, std::chrono::microseconds(5), false);
  report("after 1 ms of sleep", loops / 200, std::chrono::microseconds(1000), true);
  return 0;
}
