#pragma once

#include <span>

#include "core/matrix_view.h"
#include "core/thread_pool.h"
#include "model/transformer/layers/linear.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {

/// The MLP's activation: inner (tokens, n) through gelu_new, or (tokens, 2 n) = gate, up through silu(gate) * up,
/// according to its width; y (tokens, n) may be the first n columns of inner.
template <class T>
void activate(MatrixView<const T> inner, MatrixView<T> y) {
  const std::size_t n = y.cols();
  const bool gated = inner.cols() != n;
  for_row_pieces(y.rows(), n, [&](std::size_t r, std::size_t first, std::size_t count) {
    const T* in = inner.row(r).data() + first;
    T* out = y.row(r).data() + first;
    gated ? silu_mul_row(in, in + n, out, count) : gelu_row(in, out, count);
  });
}

/// Replaces inner by dL/d(inner), given dy (tokens, n).
template <class T>
void activation_backward(MatrixView<const T> dy, MatrixView<T> inner) {
  const std::size_t n = dy.cols();
  const bool gated = inner.cols() != n;
  parallel_for_tiles(dy.rows(), 8, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      T* in = inner.row(r).data();
      const T* d = dy.row(r).data();
      gated ? silu_mul_backward_row<T>(in, in + n, d, in, in + n, n) : gelu_backward_row<T>(in, d, in, n);
    }
  });
}

}  // namespace nibble::model
