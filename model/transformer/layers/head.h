#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/transformer/layers/linear.h"
#include "model/transformer/layers/norm.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// Final norm and output layer: logits = cap(scale · linear(norm(x))), cap(l) = softcap · tanh(l / softcap), or l.
/// Logits exist only for one chunk of rows at a time: at most 32 MB, and one row; the slopes of `cap` beside them on
/// the way back.
template <class T>
struct Head {
  std::optional<Norm<T>> norm;
  NamedLinear<T> linear;
  double scale = 1.0;
  double softcap = 0.0;  ///< 0: none

  struct Scratch {
    Buffer<T> gathered, normed, logits, gradient, slopes;
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
  /// What the linear layer is given: gathered rows, normalised.
  MatrixView<T> chunk_input(std::size_t rows, std::size_t hidden, Scratch& scratch) const {
    return (norm ? scratch.normed : scratch.gathered).view(rows, hidden);
  }
  /// Turns the linear layer's outputs into logits.
  void finish(MatrixView<T> logits) const;
  /// Turns the logits' gradient into that of the linear layer's outputs, given what keep_slopes() kept.
  void finish_backward(MatrixView<T> gradient, Scratch& scratch) const;
  void keep_slopes(MatrixView<const T> logits, Scratch& scratch) const;
  /// Fills gathered, normed and logits of `scratch` for these rows.
  MatrixView<T> chunk_logits(MatrixView<const T> x, std::span<const std::size_t> rows, Scratch& scratch,
                             const Hooks<T>* hooks) const;
};

}  // namespace nibble::model
