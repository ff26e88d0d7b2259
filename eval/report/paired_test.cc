#include "eval/report/paired_test.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

namespace nibble::eval {

std::optional<PairedDifference> paired_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(a.size());
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] - b[i];
  const double mean = sum / n;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i] - mean) * (a[i] - b[i] - mean);
  if (!std::isfinite(squares)) return std::nullopt;
  PairedDifference result{
      .mean = mean, .standard_error = std::sqrt(squares / (n - 1.0) / n), .p_value = 1.0, .pairs = a.size()};
  if (result.standard_error > 0.0) {
    const boost::math::students_t distribution(n - 1.0);
    const double t = std::min(std::abs(mean) / result.standard_error, 1e100);
    result.p_value = 2.0 * boost::math::cdf(boost::math::complement(distribution, t));
  } else if (mean != 0.0) {
    result.p_value = 0.0;
  }
  return result;
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0.0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(order.size() - rank) * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

}  // namespace nibble::eval
