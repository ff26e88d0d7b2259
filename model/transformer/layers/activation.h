#pragma once

#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"
#include "model/architecture/architecture.h"
#include "model/transformer/layers/linear.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {

/// What becomes of an MLP's inner values: f(gate) · up where gated, else f(up). kClampedSwiglu (see Activation) is
/// always gated.
struct ActivationRule {
  Activation activation = Activation::kSilu;
  bool gated = true;
  double limit = 0.0, alpha = 0.0;  ///< of kClampedSwiglu
};

/// y (tokens, n) = the activation of inner: (tokens, 2 n), gate beside up, or (tokens, n). y may be the first n columns
/// of inner. Rows and their parts run on all threads.
template <class T>
void activate(const ActivationRule& rule, MatrixView<const T> inner, MatrixView<T> y) {
  const std::size_t n = y.cols();
  for_row_pieces(y.rows(), n, [&](std::size_t r, std::size_t first, std::size_t count) {
    const T* in = inner.row(r).data() + first;
    T* out = y.row(r).data() + first;
    if (rule.activation == Activation::kClampedSwiglu) {
      clamped_swiglu_row<T>(in, in + n, out, count, rule.limit, rule.alpha);
    } else if (rule.gated) {
      gated_activation_row<T>(rule.activation, in, in + n, out, count);
    } else {
      activation_row<T>(rule.activation, in, out, count);
    }
  });
}

/// Replaces inner by dL/d(inner), given dy (tokens, n).
template <class T>
void activation_backward(const ActivationRule& rule, MatrixView<const T> dy, MatrixView<T> inner) {
  const std::size_t n = dy.cols();
  parallel_for_tiles(dy.rows(), 8, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      T* in = inner.row(r).data();
      const T* d = dy.row(r).data();
      if (rule.activation == Activation::kClampedSwiglu) {
        clamped_swiglu_backward_row<T>(in, in + n, d, in, in + n, n, rule.limit, rule.alpha);
      } else if (rule.gated) {
        gated_activation_backward_row<T>(rule.activation, in, in + n, d, in, in + n, n);
      } else {
        activation_backward_row<T>(rule.activation, in, d, in, n);
      }
    }
  });
}

}  // namespace nibble::model
