#pragma once

#include <algorithm>

#include "core/matrix/matrix_view.h"

namespace nibble {

/// Each value as the nearest float.
inline Matrix<float> rounded(const Matrix<double>& values) {
  Matrix<float> floats(values.rows(), values.cols());
  std::transform(values.values().begin(), values.values().end(), floats.values().begin(),
                 [](double value) { return static_cast<float>(value); });
  return floats;
}

}  // namespace nibble
