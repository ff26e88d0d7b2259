#pragma once

#include <vector>

#include "core/matrix/matrix_view.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Normalisation of groups of n values of each row, as NormSpec says: with x one group,
///   layer  y = (x - mean x) / sqrt(mean (x - mean x)² + epsilon) · gain + bias
///   rms    y = x / sqrt(mean x² + epsilon) · gain
/// Most norms have one group, the whole row; those of queries and keys may have one per head. Means accumulate in
/// double. Rows run on all threads.
template <class T>
class Norm {
 public:
  using Kind = NormSpec::Kind;
  /// `width` is n. gain (offset included): n values for all groups, n for each of several, or empty for 1; bias the
  /// same, or empty for 0. Throws InvalidArgument for another number of them.
  Norm(Kind kind, std::size_t width, std::vector<T> gain, std::vector<T> bias, double epsilon);

  /// x, y (tokens, groups · n); y may be x.
  void forward(MatrixView<const T> x, MatrixView<T> y) const;
  /// dx += dL/dx, given x as it went in and dy = dL/dy; all (tokens, groups · n).
  void backward_add(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx) const;
  /// dy becomes dL/dx.
  void backward(MatrixView<const T> x, MatrixView<T> dy) const;

 private:
  struct Moments {
    T mean, inverse_deviation;
  };
  Moments moments(const T* x) const;
  /// Runs body(row, first column of the group, gain of the group, bias of the group or null) for every group.
  template <class Body>
  void for_groups(std::size_t rows, std::size_t cols, const Body& body) const;

  template <bool kAdd>
  void backward_to(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx) const;

  Kind kind_;
  std::size_t width_;
  std::vector<T> gain_, bias_;
  double epsilon_;
};

}  // namespace nibble::model
