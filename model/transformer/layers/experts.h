#pragma once

#include <optional>
#include <vector>

#include "model/transformer/layers/experts_rows.h"
#include "model/transformer/layers/feed_forward.h"
#include "model/transformer/layers/mlp.h"
#include "model/transformer/layers/routing.h"

namespace nibble::model {

/// A mixture of experts:  y = Σ over the chosen experts e, ascending, of w_e mlp_e(x)  [+ s shared(x)],
/// with w of routing.h and s = sigmoid(shared_gate(x)), or 1 without a gate for the shared expert.
///
/// The rows that chose an expert are gathered and go through it together; experts that no row chose cost nothing.
/// Several experts are worked on at a time, as long as they have no more rows together than the batch (or 64, where
/// that is more): so the mixture's memory is that of a dense MLP of the widest expert over the batch, and per gathered
/// row 2 hidden forward (the row in and out), 3 hidden backward (and the gradient), whatever number of experts there
/// is. Where there are enough of them for all threads, each runs on a thread of its own, else one after the other on
/// all; the result is the same.
///
/// Hooks see the router, the experts (ascending; only those chosen), the shared expert and its gate. The gradient at
/// the output of an expert's `down` is that of the weighted sum: w_e dy. Gradients flow through the weights of the
/// chosen; the choice itself is piecewise constant. With y asked for in recompute(), backward() computes gate and up
/// twice.
template <class T>
class Experts final : public FeedForward<T> {
 public:
  /// Throws InvalidArgument where shapes or the number of active experts do not fit.
  Experts(const ExpertsSpec& spec, const typename Mlp<T>::MakeLinear& make_linear, const WeightProvider& weights);

  bool forward(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
               const Hooks<T>* hooks) const override;
  void recompute(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch) const override;
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, FeedForwardScratch<T>& scratch,
                const Hooks<T>* hooks) const override;
  void release() const override;

 private:
  /// Fills scratch.routing; returns what route() leaves of the logits, or nothing if the pass ends at the router.
  MatrixView<T> route_rows(MatrixView<const T> x, FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const;
  /// Nothing if the pass ends at the gate.
  std::span<T> shared_weights(MatrixView<const T> x, FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const;
  /// Whether the pass ends in experts, or in the shared one.
  bool ends_in_experts(const Hooks<T>* hooks) const;
  bool ends_in_shared(const Hooks<T>* hooks) const;
  // Each adds its part to y, or dx; where the pass `ends` in experts, the others are passed over and nothing is added.
  void forward_group(const ExpertGroup& group, MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
                     const Hooks<T>* hooks, bool ends) const;
  /// False if the pass ended in it.
  bool forward_shared(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
                      const Hooks<T>* hooks) const;
  void backward_group(const ExpertGroup& group, MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                      FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const;
  void backward_shared(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, FeedForwardScratch<T>& scratch,
                       const Hooks<T>* hooks) const;
  void check_shapes(MatrixView<const T> x, MatrixView<const T> y) const;

  RoutingRule rule_;
  NamedLinear<T> router_;
  std::vector<Mlp<T>> experts_;
  std::optional<Mlp<T>> shared_;
  std::optional<NamedLinear<T>> shared_gate_;
  std::size_t widest_ = 0, widest_inner_ = 0;
};

}  // namespace nibble::model
