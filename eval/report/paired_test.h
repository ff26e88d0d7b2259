#pragma once

#include <optional>
#include <span>
#include <vector>

namespace nibble::eval {

/// The mean of a − b over pairs, and how far it can be told from zero.
struct PairedDifference {
  double mean = 0.0;
  double standard_error = 0.0;  ///< sd(a − b) / √n
  double p_value = 1.0;         ///< two-sided, of Student's t with n − 1 degrees of freedom; 1 for identical samples
  std::size_t pairs = 0;
};

/// Student's paired t-test. Empty where there is nothing to test: sizes that differ, fewer than two pairs, values that
/// are not finite. Windows of one text are neighbours, so their differences are close to independent, not exactly.
std::optional<PairedDifference> paired_difference(std::span<const double> a, std::span<const double> b);

/// Holm's step-down adjustment (Holm 1979): p-values that keep the chance of any false claim below the level, in the
/// order given.
std::vector<double> holm_adjusted(std::span<const double> p_values);

}  // namespace nibble::eval
