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

/// Of at least one run.
inline Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs `work` once to warm up and then `repeats` times.
inline Timing measure(std::size_t repeats, const std::function<void()>& work) {
  work();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats; ++i) seconds.push_back(seconds_of(work));
  return timing_of(std::move(seconds));
}

}  // namespace nibble::bench
