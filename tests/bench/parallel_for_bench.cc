// What a parallel_for() of one index per thread costs beyond its bodies, when loops follow each other at once, after 5
// microseconds of work on the calling thread (the pool is still awake), and after 1 millisecond of sleep (its threads
// have gone to sleep). Bodies are empty, or take 5 microseconds each: then a loop that shares them out perfectly
// takes 5. Arguments: threads (0: all), loops.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/machine/thread_pool.h"
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
  fmt::print("{:<28}", what);
  for (const std::chrono::microseconds body : {std::chrono::microseconds(0), std::chrono::microseconds(5)}) {
    const auto run = [&](bool with_loop) {
      return bench::measure(7,
                            [&] {
                              for (std::size_t i = 0; i < loops; ++i) {
                                if (with_loop) parallel_for(thread_count(), [&](std::size_t) { work_for(body); });
                                asleep ? std::this_thread::sleep_for(between) : work_for(between);
                              }
                            })
          .median_seconds;
    };
    fmt::print(" {:14.2f}",
               (run(true) - run(false)) / static_cast<double>(loops) * 1e6 - static_cast<double>(body.count()));
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t loops = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 20000;
  fmt::print("{} threads; microseconds per loop beyond its bodies\n{:<28} {:>14} {:>14}\n", thread_count(), "",
             "empty bodies", "bodies of 5 us");
  report("one after the other", loops, std::chrono::microseconds(0), false);
  report("after 5 us of serial work", loops, std::chrono::microseconds(5), false);
  report("after 1 ms of sleep", loops / 200, std::chrono::microseconds(1000), true);
  return 0;
}
