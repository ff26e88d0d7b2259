#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace nibble::bench {

/// What repeated runs gave: shared machines are noisy, so quote the median with its spread.
struct Timing {
  double median_seconds = 0.0, min_seconds = 0.0, max_seconds = 0.0;
};

/// Runs `work` once to warm up and then `repeats` times.
inline Timing measure(std::size_t repeats, const std::function<void()>& work) {
  work();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

}  // namespace nibble::bench
