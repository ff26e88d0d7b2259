#include "cli/terminal/human.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace nibble::cli {
namespace {

struct Scaled {
  double value;
  std::string_view prefix;
};

// 999.6 must become 1.00k, not 1000: hence the bound of 999.5, where rounding to three digits steps over.
Scaled scale(double value) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t step = 0;
  while (std::abs(value) >= 999.5 && step + 1 < kPrefixes.size()) {
    value /= 1000.0;
    ++step;
  }
  return {value, kPrefixes[step]};
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string human_count(double count) {
  if (!std::isfinite(count)) return "?";
  if (std::abs(count) < 999.5 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  const auto [value, prefix] = scale(count);
  return three_digits(value) + std::string(prefix);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  const auto [value, prefix] = scale(static_cast<double>(bytes));
  return fmt::format("{} {}B", three_digits(value), prefix);
}

std::string human_duration(double seconds) {
  if (!(seconds >= 0.0)) return "?";
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string human_clock(double seconds) {
  constexpr double kLongest = 359999.0;  // 99:59:59; also where an infinite guess lands
  if (!(seconds >= 0.0)) return "--:--";
  const auto whole = static_cast<std::uint64_t>(std::llround(std::fmin(seconds, kLongest)));
  if (whole < 3600) return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string with_separators(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t place = digits.size(); place > 3;) {
    place -= 3;
    digits.insert(place, 1, ',');
  }
  return digits;
}

}  // namespace nibble::cli
