#include "eval/sweep/paired_test.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/weighted_mean.h"

namespace nibble::eval {
namespace {

constexpr double kLeastFreedom = 0.01;  // of two pairs one of which has 0.995 of the weight; less tells nothing

}  // namespace

std::optional<PairedDifference> paired_difference(std::span<const double> a, std::span<const double> b,
                                                  std::span<const std::uint64_t> weights) {
  if (a.size() != b.size() || a.size() < 2 || (!weights.empty() && weights.size() != a.size())) return std::nullopt;
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  const WeightedMean found = weighted_mean(differences, weights);
  // Not found.standard_error, which rounds otherwise: figures printed in full stay what they were before weights.
  const double standard_error = std::sqrt(found.variance / static_cast<double>(a.size()));
  const double freedom = found.effective_count - 1.0;
  if (!std::isfinite(standard_error) || !(freedom > kLeastFreedom)) return std::nullopt;
  PairedDifference result{.mean = found.mean, .standard_error = standard_error, .p_value = 1.0, .pairs = a.size()};
  if (result.standard_error > 0.0) {
    const boost::math::students_t distribution(freedom);
    const double t = std::min(std::abs(result.mean) / result.standard_error, 1e100);
    result.p_value = 2.0 * boost::math::cdf(boost::math::complement(distribution, t));
  } else if (result.mean != 0.0) {
    result.p_value = 0.0;
  }
  return result;
}

bool is_undecided(const PairedDifference& difference) { return difference.p_value >= kUndecidedChance; }

double undecided_within(std::size_t pairs) {
  NIBBLE_REQUIRE(pairs >= 2, InvalidArgument, "one pair has no error");
  const boost::math::students_t distribution(static_cast<double>(pairs) - 1.0);
  return boost::math::quantile(boost::math::complement(distribution, kUndecidedChance / 2.0));
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
