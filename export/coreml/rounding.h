#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace nibble::coreml {

/// What became of values that float16 could not hold as they were.
struct Rounding {
  std::uint64_t values = 0;  ///< that changed
  double largest = 0.0;      ///< difference

  void add(float exact, float kept) {
    if (exact == kept) return;
    ++values;
    largest = std::max(largest, std::abs(static_cast<double>(exact) - static_cast<double>(kept)));
  }
  void add(const Rounding& other) {
    values += other.values;
    largest = std::max(largest, other.largest);
  }
};

}  // namespace nibble::coreml
