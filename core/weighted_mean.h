#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/error.h"

namespace nibble {

/// The mean of a text's tokens from the means m of its windows, which hold n tokens each (of anything, by any weights).
/// Windows are taken as independent draws, W of them:
///
///   mean               R = Σ n m / Σ n, the ratio estimator
///   its error          s² = Σ n² (m − R)² / ((Σ n)² − Σ n²)
///   effective windows  (Σ n)² / Σ n²: how many of equal weight would tell as much (Kish 1965, Survey Sampling)
///
/// s² is the ratio estimator's usual variance, Σ n² (m − R)² / (n̄² W (W − 1)) (Cochran 1977, Sampling Techniques,
/// section 2.11), divided by 1 − V²/W with V the coefficient of variation of n (Royall and Eberhardt 1975, Sankhya C
/// 37): of independent tokens it then has the expectation of Var R whatever the windows. Where no weights are given, or
/// all are the same, these are the mean of m, sd(m) / √W and W, to the bit.
struct WeightedMean {
  double mean = 0.0;
  double standard_error = 0.0;  ///< NaN for a single window, or where one has all the weight
  double variance = 0.0;        ///< W s²: of windows, were they equal; NaN likewise
  double effective_count = 0.0;
};

/// Cost: three passes. Throws InvalidArgument for another number of weights than of values, but for none.
inline WeightedMean weighted_mean(std::span<const double> values, std::span<const std::uint64_t> weights) {
  NIBBLE_REQUIRE(weights.empty() || weights.size() == values.size(), InvalidArgument,
                 "weighted mean: expected a weight for each of {} values, got {}", values.size(), weights.size());
  const auto count = static_cast<double>(values.size());
  double total = 0.0;
  for (const std::uint64_t weight : weights) total += static_cast<double>(weight);
  // Over the mean weight, so that equal ones multiply by 1.
  const auto share = [&](std::size_t i) {
    return weights.empty() ? 1.0 : static_cast<double>(weights[i]) / (total / count);
  };
  double sum = 0.0, shares_squared = 0.0, spread_of_shares = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += share(i) * values[i];
    shares_squared += share(i) * share(i);
    spread_of_shares += (share(i) - 1.0) * (share(i) - 1.0);
  }
  const double mean = sum / count;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double deviation = share(i) * (values[i] - mean);
    squares += deviation * deviation;
  }
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (values.size() < 2) return {mean, kNaN, kNaN, count};
  const double balance = 1.0 - spread_of_shares / (count * (count - 1.0));  // 1 − V²/W
  const double variance = squares / (count - 1.0) / balance;
  return {mean, std::sqrt(variance) / std::sqrt(count), variance, count * count / shares_squared};
}

}  // namespace nibble
