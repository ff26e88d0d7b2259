#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "core/error.h"

namespace nibble {

/// a * b, or FormatError naming `what` when the product does not fit in 64 bits.
inline std::uint64_t checked_multiply(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t product = 0;
  NIBBLE_REQUIRE(!__builtin_mul_overflow(a, b, &product), FormatError, "{}: {} * {} overflows 64 bits", what, a, b);
  return product;
}

/// a + b, or FormatError naming `what` when the sum does not fit in 64 bits.
inline std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t sum = 0;
  NIBBLE_REQUIRE(!__builtin_add_overflow(a, b, &sum), FormatError, "{}: {} + {} overflows 64 bits", what, a, b);
  return sum;
}

/// Product of all extents of a shape (1 for an empty shape), overflow-checked.
inline std::uint64_t checked_element_count(std::span<const std::uint64_t> shape, std::string_view what) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) count = checked_multiply(count, extent, what);
  return count;
}

/// ceil(a / b). Requires b > 0.
constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace nibble
