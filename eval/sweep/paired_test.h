#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nibble::eval {

/// Standard errors within which a difference of many pairs is undecided.
constexpr double kUndecidedWithin = 2.0;
/// How often a normal value is further than that from its mean: erfc(√2).
constexpr double kUndecidedChance = 0.045500263896358;

/// The mean of a − b over pairs, and how far it can be told from zero.
struct PairedDifference {
  double mean = 0.0;  ///< weighted_mean() of a − b, and its error; without weights sd(a − b) / √n
  double standard_error = 0.0;
  /// Two-sided, of Student's t with as many degrees of freedom as there are effective pairs, less one: n − 1 without
  /// weights. 1 for identical samples.
  double p_value = 1.0;
  std::size_t pairs = 0;
};

/// Student's paired t-test, of pairs that weigh as much as `weights` say (none: all the same). Empty where there is
/// nothing to test: sizes that differ, fewer than two pairs, a pair with nearly all the weight, values that are not
/// finite. Windows of one text are neighbours, so their differences are close to independent, not exactly.
std::optional<PairedDifference> paired_difference(std::span<const double> a, std::span<const double> b,
                                                  std::span<const std::uint64_t> weights = {});

/// Whether chance alone gives as much in more than kUndecidedChance of cases, by Student's t: of many pairs what is
/// within two standard errors of zero, of five draws within 2.87, of three within 4.53.
bool is_undecided(const PairedDifference& difference);

/// Standard errors that a mean of `pairs` differences exceeds by chance as often as a normal value exceeds two: 2.87 of
/// five, 4.53 of three. Requires two pairs.
double undecided_within(std::size_t pairs);

/// Holm's step-down adjustment (Holm 1979): p-values that keep the chance of any false claim below the level, in the
/// order given.
std::vector<double> holm_adjusted(std::span<const double> p_values);

}  // namespace nibble::eval
