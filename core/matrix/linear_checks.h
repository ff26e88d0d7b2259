#pragma once

#include <cstddef>

#include "core/error.h"
#include "core/matrix/matrix_view.h"

namespace nibble {

/// X (tokens, in) and Y (tokens, out) of a linear layer (out, in), or the gradients by them. Throws InvalidArgument
/// with all shapes otherwise.
template <class T, class U>
void check_linear_shapes(std::size_t out, std::size_t in, MatrixView<T> x, MatrixView<U> y) {
  NIBBLE_REQUIRE(x.rows() == y.rows() && x.cols() == in && y.cols() == out, InvalidArgument,
                 "linear ({}, {}): expected X (tokens, {}) and Y (tokens, {}), got ({}, {}) and ({}, {})", out, in, in,
                 out, x.rows(), x.cols(), y.rows(), y.cols());
}

/// A bias has as many values as there are outputs, or none. Throws InvalidArgument otherwise.
inline void check_linear_bias(std::size_t bias, std::size_t out) {
  NIBBLE_REQUIRE(bias == 0 || bias == out, InvalidArgument, "linear: expected a bias of {} values, got {}", out, bias);
}

}  // namespace nibble
