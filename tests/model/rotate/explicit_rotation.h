#pragma once

#include <vector>

#include "core/matrix/matrix_view.h"
#include "model/rotate/rotation.h"

namespace nibble::test {

/// Q, row by row: what becomes of the unit vectors.
inline Matrix<double> explicit_matrix(const model::Parts& parts, std::size_t width) {
  Matrix<double> q(width, width);
  for (std::size_t i = 0; i < width; ++i) {
    q(i, i) = 1.0;
    model::rotate_parts(parts, q.row(i));
  }
  return q;
}

}  // namespace nibble::test
