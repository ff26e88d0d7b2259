#pragma once

#include <functional>
#include <memory>

#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/layers/linear.h"
#include "model/transformer/layers/routing.h"

namespace nibble::model {

/// Intermediate activations of feed-forward layers, kept between calls for the largest batch seen. One scratch may
/// serve the layers of all blocks, one call at a time. In values of T per row, with n = 1 (plain) or 2 (gated) layers
/// into the MLP:
///   forward of an MLP   n intermediate
///   backward of an MLP  (n + 2) intermediate + hidden (`part`)
/// A mixture has the same for as many gathered rows as it works on at a time (experts.h), and these rows themselves.
template <class T>
struct FeedForwardScratch {
  Buffer<T> inner, activated, gradient_activated;
  Buffer<T> part;  ///< (rows, hidden); holds nothing between calls, so the caller may use it for its own purposes
  // Of a mixture.
  Routing<T> routing;
  Buffer<T> router_logits, gathered, gathered_gradient, outputs, shared_weights, gradient_shared_weights;
};

/// The feed-forward half of a block, y = f(x): an MLP or a mixture of them. x is (tokens, hidden), as the norm in front
/// gives it; tokens may be 0. Outputs are overwritten and must overlap neither inputs nor each other.
/// Results do not depend on the number of threads. Throws InvalidArgument when shapes do not fit.
template <class T>
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  /// y (tokens, hidden) = f(x), telling `hooks` (which may be null) each linear layer's input. False if the pass ended
  /// at one of them (Hooks::until).
  virtual bool forward(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
                       const Hooks<T>* hooks) const = 0;
  /// Makes ready for backward(): computes once more, without hooks, what it needs of the forward pass and leaves it in
  /// `scratch`. Also gives y = f(x) again where `y` is not empty: for a norm behind f. Without y the product with
  /// `down` is saved.
  virtual void recompute(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch) const = 0;
  /// dx = dL/dx (tokens, hidden), given dy = dL/dy, and the same x and scratch as in recompute() just before; nothing
  /// else may have used the scratch in between, but for `part`. `hooks` get inputs and output gradients of the linear
  /// layers.
  virtual void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, FeedForwardScratch<T>& scratch,
                        const Hooks<T>* hooks) const = 0;
  /// Mapped weights may leave memory.
  virtual void release() const = 0;
};

}  // namespace nibble::model
