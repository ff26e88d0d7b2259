#pragma once

#include <cmath>

namespace nibble {

/// ||W - What||_F / ||W||_F, summed in double value by value; 0 for W = 0.
class ErrorSum {
 public:
  void add(double value, double approximation) {
    const double difference = value - approximation;
    error_ += difference * difference;
    norm_ += value * value;
  }
  double relative() const { return norm_ > 0.0 ? std::sqrt(error_ / norm_) : 0.0; }

 private:
  double error_ = 0.0, norm_ = 0.0;
};

}  // namespace nibble
