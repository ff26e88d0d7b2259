#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/matrix/dtype.h"

namespace nibble::model {

/// How a row of n values of one head is kept as Stored, and read back. kScaled: encode() returns a scale that is kept
/// beside the row, and what widen() gives must be multiplied by.
template <class T, class Stored>
struct CacheElement;

template <class T>
struct CacheElement<T, T> {
  static constexpr bool kScaled = false;
  static float encode(const T* row, std::size_t n, T* stored) {
    std::copy_n(row, n, stored);
    return 1.0f;
  }
};

using Float16Bits = std::uint16_t;

template <>
struct CacheElement<float, Float16Bits> {
  static constexpr bool kScaled = false;
  static float encode(const float* row, std::size_t n, Float16Bits* stored) {
    convert_to_f16({row, n}, stored);
    return 1.0f;
  }
  static void widen(const Float16Bits* stored, std::size_t n, float* values) {
    convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(stored), n, values);
  }
};

template <>
struct CacheElement<float, std::int8_t> {
  static constexpr bool kScaled = true;
  static float encode(const float* row, std::size_t n, std::int8_t* stored) {
    float largest = 0.0f;
    bool finite = true;
    for (std::size_t i = 0; i < n; ++i) {
      largest = std::max(largest, std::abs(row[i]));
      finite &= std::isfinite(row[i]);
    }
    // A NaN or infinity must not turn into a number: the whole row reads back as NaN.
    const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < n; ++i)
      stored[i] = scale > 0.0f ? static_cast<std::int8_t>(std::nearbyint(std::clamp(row[i] / scale, -127.0f, 127.0f)))
                               : std::int8_t{0};
    return scale;
  }
  static void widen(const std::int8_t* stored, std::size_t n, float* values) {
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(stored[i]);
  }
};

}  // namespace nibble::model
