#pragma once

#include <functional>
#include <optional>
#include <span>

#include "model/transformer/layers/activation.h"
#include "model/transformer/layers/feed_forward.h"

namespace nibble::model {

/// Views for the rows that an MLP works on, with n = 1 (plain) or 2 (gated).
template <class T>
struct MlpRows {
  MatrixView<T> inner;               ///< (rows, n intermediate): gate beside up, or up alone
  MatrixView<T> activated;           ///< (rows, intermediate); may be the first columns of inner where it is not kept
  MatrixView<T> gradient_activated;  ///< (rows, intermediate), for backward
  MatrixView<T> part;                ///< (rows, hidden), for backward of a gated MLP
};

/// A weight per row that scales an MLP's output, and the gradient of the loss with respect to it.
template <class T>
struct RowWeights {
  std::span<const T> weights;
  std::span<T> gradient;
};

/// y = down(activation(gate(x), up(x))), or down(activation(up(x))): a dense model's feed-forward half, and one expert.
/// Cost: one product per linear layer forward; backward one per layer and, for recompute(), those of gate and up (and
/// of down if y is asked for).
template <class T>
class Mlp final : public FeedForward<T> {
 public:
  using MakeLinear = std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>;
  /// `down_bias` (hidden) or empty; only backward_weighted() needs it. Throws InvalidArgument where widths do not fit.
  Mlp(const MlpSpec& spec, const MakeLinear& make_linear, std::vector<T> down_bias = {});

  bool forward(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
               const Hooks<T>* hooks) const override;
  void recompute(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch) const override;
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, FeedForwardScratch<T>& scratch,
                const Hooks<T>* hooks) const override;
  void release() const override;

  // The same over the caller's memory, for some rows of a batch, which hooks are told.
  bool forward(MatrixView<const T> x, MatrixView<T> y, const MlpRows<T>& memory, const Hooks<T>* hooks,
               const HookRows& rows) const;
  /// Fills memory.inner and memory.activated, which must lie apart.
  void recompute(MatrixView<const T> x, const MlpRows<T>& memory) const;
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, const MlpRows<T>& memory,
                const Hooks<T>* hooks, const HookRows& rows) const;
  /// Backward of weights[i] · f(x_i), given dy = dL/d(weighted output). Turns dy into dL/d(output of down), which is
  /// weights[i] · dy_i, and sets the weights' gradients, dy_i · f(x_i), without computing f(x) again:
  /// dy · (W a + b) = (dy W) · a + dy · b, and dy W is there anyway.
  void backward_weighted(MatrixView<const T> x, MatrixView<T> dy, const RowWeights<T>& weights, MatrixView<T> dx,
                         const MlpRows<T>& memory, const Hooks<T>* hooks, const HookRows& rows) const;

  /// As backward(), over the scratch of recompute().
  void backward_weighted(MatrixView<const T> x, MatrixView<T> dy, const RowWeights<T>& weights, MatrixView<T> dx,
                         FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const;

  /// Whether a pass ends at one of the layers.
  bool ends(const Hooks<T>& hooks) const {
    return hooks.ends_at(up_.module) || hooks.ends_at(down_.module) || (gate_ && hooks.ends_at(gate_->module));
  }
  std::size_t hidden() const { return down_.op->out_features(); }
  std::size_t intermediate() const { return down_.op->in_features(); }
  std::size_t inner_width() const { return (gate_ ? 2 : 1) * intermediate(); }

 private:
  void check_shapes(MatrixView<const T> x, MatrixView<const T> y) const;
  MlpRows<T> backward_rows(std::size_t rows, FeedForwardScratch<T>& scratch) const;
  bool into_inner(MatrixView<const T> x, MatrixView<T> inner, const Hooks<T>* hooks, const HookRows& rows) const;
  /// From memory.gradient_activated on.
  void backward_from_activated(MatrixView<const T> x, MatrixView<T> dx, const MlpRows<T>& memory, const Hooks<T>* hooks,
                               const HookRows& rows) const;

  ActivationRule rule_;
  std::optional<NamedLinear<T>> gate_;
  NamedLinear<T> up_, down_;
  std::vector<T> down_bias_;
};

}  // namespace nibble::model
