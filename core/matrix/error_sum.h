#pragma once

#include <cmath>

namespace nibble {

/// ||W - What||_F / ||W||_F, summed in double; 0 for W = 0, NaN where one holds a NaN.
class ErrorSum {
 public:
  void add(double value, double approximation) {
    const double difference = value - approximation;
    error_ += difference * difference;
    norm_ += value * value;
  }
  /// Sums of many values: of (value - approximation)² and of value².
  void add_sums(double error, double norm) {
    error_ += error;
    norm_ += norm;
  }
  double relative() const { return norm_ > 0.0 || std::isnan(error_) ? std::sqrt(error_ / norm_) : 0.0; }
  /// Whether W = 0 stands for something else, which no relative error measures.
  bool of_nothing() const { return error_ > 0.0 && !(norm_ > 0.0); }

 private:
  double error_ = 0.0, norm_ = 0.0;
};

}  // namespace nibble
