#pragma once

#include <memory>
#include <string>

#include "core/linear_op.h"
#include "core/thread_pool.h"
#include "model/transformer/hooks.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {

/// A linear layer and its name in the checkpoint, which hooks get.
template <class T>
struct NamedLinear {
  std::string module;
  std::unique_ptr<LinearOp<T>> op;

  void forward(MatrixView<const T> x, MatrixView<T> y, const Hooks<T>* hooks) const {
    if (hooks != nullptr && hooks->on_linear_input) hooks->on_linear_input(module, x);
    op->forward(x, y);
  }
  /// dx = dy W, after the hook saw x and dy.
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, const Hooks<T>* hooks) const {
    if (hooks != nullptr && hooks->on_linear_gradient) hooks->on_linear_gradient(module, x, dy);
    op->backward_input(dy, dx);
  }
};

/// y += x, on all threads.
template <class T>
void add(MatrixView<const T> x, MatrixView<T> y) {
  parallel_for_tiles(x.rows(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) add_row(x.row(r).data(), y.row(r).data(), x.cols());
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

 private:
  std::vector<T> values_;
};

}  // namespace nibble::model
