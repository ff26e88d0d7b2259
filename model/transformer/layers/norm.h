#pragma once

#include <vector>

#include "core/matrix_view.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Normalisation of each row x of n values, then gain and bias:
///   layer  y = (x - mean x) / sqrt(mean (x - mean x)^2 + epsilon) * gain + bias
///   rms    y = x / sqrt(mean x^2 + epsilon) * gain
/// Means accumulate in double. Rows run on all threads.
template <class T>
class Norm {
 public:
  using Kind = NormSpec::Kind;
  /// gain (n), bias (n) or empty.
  Norm(Kind kind, std::vector<T> gain, std::vector<T> bias, double epsilon);

  /// x, y (tokens, n); y may be x.
  void forward(MatrixView<const T> x, MatrixView<T> y) const;
  /// dx += dL/dx, given x as it went in and dy = dL/dy; all (tokens, n).
  void backward_add(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx) const;

 private:
  struct Moments {
    T mean, inverse_deviation;
  };
  Moments moments(const T* x) const;

  Kind kind_;
  std::vector<T> gain_, bias_;
  double epsilon_;
};

}  // namespace nibble::model
