#include "eval/quality/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace nibble::eval {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double sample_deviation(std::span<const double> values) {
  if (values.size() < 2) return kUndefined;
  const double centre = mean(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double standard_error(std::span<const double> values) {
  return sample_deviation(values) / std::sqrt(static_cast<double>(values.size()));
}

std::vector<double> quantiles(std::vector<double> values, std::span<const double> q) {
  const bool has_nan = std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  if (values.empty() || has_nan) return std::vector<double>(q.size(), kUndefined);
  std::sort(values.begin(), values.end());
  std::vector<double> result;
  for (const double share : q) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double rest = place - static_cast<double>(below);
    // Not by the difference: of two infinities that is NaN.
    result.push_back(rest == 0.0 ? values[below] : (1.0 - rest) * values[below] + rest * values[above]);
  }
  return result;
}

}  // namespace nibble::eval
