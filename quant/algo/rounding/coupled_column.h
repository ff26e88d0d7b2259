#pragma once

#include <cstddef>
#include <span>

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// The loss of one input's values v (out) while those of all other inputs stay, errors of different outputs coupled:
///
///   L(v + x) = L(v) + 2 xᵀ g + h xᵀ H_O x,    g = (H_O Δ H_I)_j,  h = (H_I)_jj                       (1)
///
/// of tr(H_O Δ H_I Δᵀ) (coupled_descent.h). Keeps g up to date.
class CoupledColumn {
 public:
  /// h_out (out, out), symmetric; slope g (out), changed in place. Both must outlive the object.
  CoupledColumn(MatrixView<const float> h_out, float h, std::span<float> slope) : h_out_(h_out), h_(h), slope_(slope) {}

  double slope(std::size_t row) const { return static_cast<double>(slope_[row]); }
  /// What x_a x_b costs in (1), without the factor 2 of a pair.
  double coupling(std::size_t a, std::size_t b) const {
    return static_cast<double>(h_) * static_cast<double>(h_out_(a, b));
  }
  /// The value of v_row changed by `change`. Cost: (out) multiply-adds.
  void move(std::size_t row, float change) {
    const auto x = static_cast<double>(change);
    gain_ -= 2.0 * x * slope(row) + coupling(row, row) * x * x;
    const float* __restrict from = h_out_.row(row).data();
    float* __restrict to = slope_.data();
    const float factor = h_ * change;
    for (std::size_t i = 0; i < slope_.size(); ++i) to[i] += factor * from[i];
  }
  /// By how much the loss fell with all moves so far.
  double gain() const { return gain_; }

 private:
  MatrixView<const float> h_out_;
  float h_;
  std::span<float> slope_;
  double gain_ = 0.0;
};

}  // namespace nibble::quant
