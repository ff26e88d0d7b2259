#pragma once

#include <algorithm>
#include <cstddef>

#include "core/matrix/linear_op.h"
#include "core/matrix/matrix_view.h"

namespace nibble {

/// A matrix (out, in) in memory as the rows of a weight; it must outlive this.
class ViewSource final : public WeightSource {
 public:
  explicit ViewSource(MatrixView<const float> weight) : weight_(weight) {}
  std::size_t rows() const override { return weight_.rows(); }
  std::size_t cols() const override { return weight_.cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    for (std::size_t row = begin; row < end; ++row)
      destination = std::copy(weight_.row(row).begin(), weight_.row(row).end(), destination);
  }

 private:
  MatrixView<const float> weight_;
};

}  // namespace nibble
