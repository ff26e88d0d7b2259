#pragma once

#include <algorithm>

#include "core/matrix/matrix_view.h"

namespace nibble {

/// A matrix of its own with a view's values, whatever the view's stride.
inline Matrix<float> copied(MatrixView<const float> values) {
  Matrix<float> copy(values.rows(), values.cols());
  for (std::size_t r = 0; r < values.rows(); ++r) std::copy_n(values.row(r).data(), values.cols(), copy.row(r).data());
  return copy;
}

}  // namespace nibble
