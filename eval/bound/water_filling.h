#pragma once

#include <cstddef>
#include <vector>

namespace nibble::eval {

/// The rate-distortion function of Gaussian components, independent, of which component (i, j) has variance a_i b_j,
/// under the squared error averaged over all n of them (reverse water filling): with a level θ,
///
///   D(θ) = 1/n Σ min(a_i b_j, θ),      R(θ) = 1/n Σ max(0, ½ log₂(a_i b_j / θ))   bits for each.
///
/// Source  Cover, Thomas, Elements of Information Theory, 10.3.3. Cost  of a call O(|a| log |b|) for each of about 100
/// steps. Threads: const calls may run concurrently.
class WaterFilling {
 public:
  /// Throws InvalidArgument unless each list has a positive variance, and all are finite and none is negative.
  WaterFilling(std::vector<double> a, std::vector<double> b);

  double variance() const;                       ///< D at 0 bits: mean of a · mean of b
  double distortion(double bits) const;          ///< D(R). Requires bits >= 0.
  double bits(double mean_squared_error) const;  ///< R(D): 0 from variance() on. Requires mean_squared_error > 0.

 private:
  struct Point {
    double bits = 0.0, distortion = 0.0;
  };
  Point at(double log_level) const;

  std::vector<double> a_, b_;           // the positive ones, b ascending
  std::vector<double> b_sum_, b_logs_;  // of the first k of b: sum, and of the last ones: sum of logarithms
  double components_ = 0.0;             // zeros included
};

/// How much smaller the variance of a Gaussian with the same differential entropy is than that of Student's t with
/// `degrees` of freedom (> 2): exp(2h) / (2πe) over degrees / (degrees - 2); below 1. What it bounds:
/// SyntheticLayer::bound().
double entropy_power_of_student_t(double degrees);

}  // namespace nibble::eval
