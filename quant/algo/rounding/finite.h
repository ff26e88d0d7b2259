#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace nibble::quant {

/// Least and largest of some values, unless there is a NaN or infinity among them (or no value at all).
struct ValueRange {
  float low = 0.0f, high = 0.0f;
};

/// The range of finite values; empty when one is not. Runs near memory speed.
std::optional<ValueRange> finite_range(std::span<const float> values);

/// The index of the first NaN or infinity, if there is one.
std::optional<std::size_t> first_not_finite(std::span<const float> values);

}  // namespace nibble::quant
