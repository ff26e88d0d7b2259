#pragma once

#include <cstdint>
#include <span>

#include "model/transformer/layers/linear.h"
#include "model/transformer/layers/norm.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// Final norm and output layer. Logits exist only for one chunk of rows at a time: at most 32 MB, and one row.
template <class T>
struct Head {
  Norm<T> norm;
  NamedLinear<T> linear;

  struct Scratch {
    Buffer<T> gathered, normed, logits, gradient;
  };

  /// Logits of the given rows of x (tokens, hidden), chunk by chunk. Throws NumericalError if one is NaN.
  void forward(MatrixView<const T> x, std::span<const std::size_t> rows, const LogitSink<T>& sink, Scratch& scratch,
               const Hooks<T>* hooks) const;
  /// See Transformer::backward_logits(). The hook is called once per chunk.
  void backward(MatrixView<const T> x, std::span<const std::size_t> rows, const LogitGradient<T>& gradient,
                MatrixView<T> dx, Scratch& scratch, const Hooks<T>* hooks) const;
  /// See Transformer::backward_head(). The hook is called once per chunk.
  void backward(MatrixView<const T> x, std::span<const std::int64_t> targets, std::span<const T> row_weights,
                std::span<T> losses, MatrixView<T> dx, Scratch& scratch, const Hooks<T>* hooks) const;

 private:
  std::size_t rows_per_chunk() const;
  /// Fills gathered, normed and logits of `scratch` for these rows.
  MatrixView<T> chunk_logits(MatrixView<const T> x, std::span<const std::size_t> rows, Scratch& scratch,
                             const Hooks<T>* hooks) const;
};

}  // namespace nibble::model
