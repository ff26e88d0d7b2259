#pragma once

#include <span>
#include <vector>

namespace nibble::eval {

/// NaN for no values.
double mean(std::span<const double> values);

/// The sample's standard deviation (n - 1 in the denominator); NaN for fewer than two values.
double sample_deviation(std::span<const double> values);

/// Of the mean of `values` taken as independent draws: sample_deviation() / √n.
double standard_error(std::span<const double> values);

/// The values at shares `q` (each in [0, 1]) of the sorted `values`: between the order statistics around q (n - 1),
/// linearly. NaNs for no values, or where a value is NaN. Cost: one sort.
std::vector<double> quantiles(std::vector<double> values, std::span<const double> q);

}  // namespace nibble::eval
