#pragma once

#include <gtest/gtest.h>

#include <span>

namespace nibble::test {

/// How far values may be apart: |actual - expected| <= abs + rel * |expected|. Say at each use where the bound comes
/// from.
struct Bound {
  double abs = 0.0;
  double rel = 0.0;
};

/// The one comparer of floating-point values in this repository. Passes when the sizes agree and for every element
/// actual == expected, or expected is finite and the bound holds. NaN never passes, on either side. The message names
/// the worst element.
testing::AssertionResult all_near(std::span<const float> actual, std::span<const float> expected, Bound bound);
testing::AssertionResult all_near(std::span<const double> actual, std::span<const double> expected, Bound bound);
testing::AssertionResult near(double actual, double expected, Bound bound);

/// ||actual - expected||_2 / ||expected||_2 <= limit, in double. NaN, infinities, size mismatch and an all-zero
/// expectation (unless actual is all zero too) never pass.
testing::AssertionResult relative_error_within(std::span<const float> actual, std::span<const float> expected,
                                               double limit);
testing::AssertionResult relative_error_within(std::span<const double> actual, std::span<const double> expected,
                                               double limit);

/// Same size and the same bits everywhere (so -0 differs from 0, and a NaN equals the same NaN).
testing::AssertionResult same_bits(std::span<const float> actual, std::span<const float> expected);
testing::AssertionResult same_bits(std::span<const double> actual, std::span<const double> expected);

}  // namespace nibble::test
