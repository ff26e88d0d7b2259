#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "core/machine/thread_pool.h"
#include "core/matrix/linear_op.h"
#include "model/transformer/hooks.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {

/// A linear layer and its name in the checkpoint, which hooks get.
template <class T>
struct NamedLinear {
  std::string module;
  std::unique_ptr<LinearOp<T>> op;

  /// False if the pass ends here (Hooks::until): y is not computed then.
  [[nodiscard]] bool forward(MatrixView<const T> x, MatrixView<T> y, const Hooks<T>* hooks,
                             const HookRows& rows = {}) const {
    if (hooks != nullptr && hooks->on_linear_input) hooks->on_linear_input(module, x, rows);
    if (hooks != nullptr && hooks->ends_at(module)) return false;
    op->forward(x, y);
    return true;
  }
  /// dx = dy W, after the hook saw x and dy.
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, const Hooks<T>* hooks,
                const HookRows& rows = {}) const {
    if (hooks != nullptr && hooks->on_linear_gradient) hooks->on_linear_gradient(module, x, dy, rows);
    op->backward_input(dy, dx);
  }
};

/// Runs body(row, first column, columns) over all of a (rows, cols) matrix, on all threads: in pieces of 2048 columns,
/// so that a single row of many is shared out too, and several rows at a time where they are short.
template <class Body>
void for_row_pieces(std::size_t rows, std::size_t cols, const Body& body) {
  constexpr std::size_t kPiece = 2048;
  const std::size_t pieces = (cols + kPiece - 1) / kPiece, at_a_time = rows > 1 ? 8 : 1;
  parallel_for_tiles(rows * pieces, at_a_time, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i % pieces * kPiece;
      body(i / pieces, first, std::min(kPiece, cols - first));
    }
  });
}

/// y += x, on all threads.
template <class T>
void add(MatrixView<const T> x, MatrixView<T> y) {
  parallel_for_tiles(x.rows(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) add_row(x.row(r).data(), y.row(r).data(), x.cols());
  });
}

/// y += factor · x, on all threads.
template <class T>
void add_scaled(double factor, MatrixView<const T> x, MatrixView<T> y) {
  if (factor == 1.0) return add<T>(x, y);
  const auto by = static_cast<RealOf<T>>(factor);
  parallel_for_tiles(x.rows(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t i = 0; i < x.cols(); ++i) y(r, i) += by * x(r, i);
  });
}

/// y = x, on all threads.
template <class T>
void copy(MatrixView<const T> x, MatrixView<T> y) {
  parallel_for_tiles(x.rows(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) std::copy_n(x.row(r).data(), x.cols(), y.row(r).data());
  });
}

/// y = factor · x, on all threads; y may be x.
template <class T>
void copy_scaled(double factor, MatrixView<const T> x, MatrixView<T> y) {
  const auto by = static_cast<RealOf<T>>(factor);
  parallel_for_tiles(x.rows(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t i = 0; i < x.cols(); ++i) y(r, i) = by * x(r, i);
  });
}

/// Memory that keeps its largest size, for matrices that change shape between calls. Contents are unspecified.
template <class T>
class Buffer {
 public:
  MatrixView<T> view(std::size_t rows, std::size_t cols) {
    if (values_.size() < rows * cols) {
      values_.clear();  // nothing to keep: do not hold the old memory beside the new
      values_.shrink_to_fit();
      values_.resize(rows * cols);
    }
    return {values_.data(), rows, cols};
  }
  std::size_t size() const { return values_.size(); }  ///< values that it holds

 private:
  std::vector<T> values_;
};

}  // namespace nibble::model
