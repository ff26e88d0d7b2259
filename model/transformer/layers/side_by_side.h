#pragma once

#include <span>

#include "model/transformer/layers/linear.h"

namespace nibble::model {

/// Several layers over the same x; y holds their outputs side by side. False if the pass ends at one of them.
template <class T>
[[nodiscard]] bool forward_side_by_side(std::span<const NamedLinear<T>> layers, MatrixView<const T> x, MatrixView<T> y,
                                        const Hooks<T>* hooks) {
  std::size_t column = 0;
  for (const NamedLinear<T>& layer : layers) {
    if (!layer.forward(x, y.cols_slice(column, layer.op->out_features()), hooks)) return false;
    column += layer.op->out_features();
  }
  return true;
}

/// dx = sum of the layers' gradients; dy side by side as above; `part` (tokens, in) is scratch.
template <class T>
void backward_side_by_side(std::span<const NamedLinear<T>> layers, MatrixView<const T> x, MatrixView<const T> dy,
                           MatrixView<T> dx, MatrixView<T> part, const Hooks<T>* hooks) {
  std::size_t column = 0;
  for (const NamedLinear<T>& layer : layers) {
    layer.backward(x, dy.cols_slice(column, layer.op->out_features()), column == 0 ? dx : part, hooks);
    if (column != 0) add<T>(part, dx);
    column += layer.op->out_features();
  }
}

}  // namespace nibble::model
