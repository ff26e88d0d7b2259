#include "tests/support/compare.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace nibble::test {
namespace {

bool within(double actual, double expected, Bound bound) {
  if (actual == expected) return true;  // equal infinities included; false for NaN
  return std::isfinite(expected) && std::abs(actual - expected) <= bound.abs + bound.rel * std::abs(expected);
}

testing::AssertionResult sizes_differ(std::size_t actual, std::size_t expected) {
  return testing::AssertionFailure() << fmt::format("{} values, expected {}", actual, expected);
}

template <class T>
testing::AssertionResult all_near_of(std::span<const T> actual, std::span<const T> expected, Bound bound) {
  if (actual.size() != expected.size()) return sizes_differ(actual.size(), expected.size());
  std::size_t failures = 0, worst = 0;
  double worst_excess = -1.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
    if (within(a, e, bound)) continue;
    ++failures;
    const double distance = std::abs(a - e);
    const double excess = std::isnan(distance) ? HUGE_VAL : distance;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (failures == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format(
             "{} of {} values out of bounds; worst at [{}]: {} but expected {}, "
             "|difference| {}, allowed {} + {} * |expected|",
             failures, actual.size(), worst, actual[worst], expected[worst], worst_excess, bound.abs, bound.rel);
}

template <class T>
testing::AssertionResult relative_error_of(std::span<const T> actual, std::span<const T> expected, double limit) {
  if (actual.size() != expected.size()) return sizes_differ(actual.size(), expected.size());
  double difference = 0.0, reference = 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
    difference += (a - e) * (a - e);
    reference += e * e;
  }
  if (difference == 0.0 && std::isfinite(reference)) return testing::AssertionSuccess();
  const double error = std::sqrt(difference / reference);  // NaN or infinite when something is wrong
  if (std::isfinite(reference) && error <= limit) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format(
             "relative error {:.3e} exceeds {:.3e} (norms: difference {:.6e}, expected {:.6e})", error, limit,
             std::sqrt(difference), std::sqrt(reference));
}

template <class T, class Bits>
testing::AssertionResult same_bits_of(std::span<const T> actual, std::span<const T> expected) {
  if (actual.size() != expected.size()) return sizes_differ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<Bits>(actual[i]) != std::bit_cast<Bits>(expected[i]))
      return testing::AssertionFailure() << fmt::format("[{}]: {} is not the same bits as {}", i, actual[i],
                                                        expected[i]);
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult all_near(std::span<const float> a, std::span<const float> e, Bound b) {
  return all_near_of(a, e, b);
}
testing::AssertionResult all_near(std::span<const double> a, std::span<const double> e, Bound b) {
  return all_near_of(a, e, b);
}
testing::AssertionResult near(double actual, double expected, Bound bound) {
  return all_near_of(std::span<const double>(&actual, 1), std::span<const double>(&expected, 1), bound);
}
testing::AssertionResult relative_error_within(std::span<const float> a, std::span<const float> e, double limit) {
  return relative_error_of(a, e, limit);
}
testing::AssertionResult relative_error_within(std::span<const double> a, std::span<const double> e, double limit) {
  return relative_error_of(a, e, limit);
}
testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> e) {
  return same_bits_of<float, std::uint32_t>(a, e);
}
testing::AssertionResult same_bits(std::span<const double> a, std::span<const double> e) {
  return same_bits_of<double, std::uint64_t>(a, e);
}

}  // namespace nibble::test
