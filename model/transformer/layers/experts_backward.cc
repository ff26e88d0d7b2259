#include <algorithm>

#include "model/transformer/layers/experts.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
void Experts<T>::recompute(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch) const {
  if (!y.empty()) {
    forward(x, y, scratch, nullptr);
    return;
  }
  check_shapes(x, x);
  route_rows(x, scratch, nullptr);
}

template <class T>
void Experts<T>::backward_group(const ExpertGroup& group, MatrixView<const T> x, MatrixView<const T> dy,
                                MatrixView<T> dx, FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const {
  Routing<T>& routing = scratch.routing;
  const std::size_t rows = group.rows(), hidden = x.cols();
  const GatheredRows<T> gathered(group, routing, x, scratch.gathered);
  const auto gradient = scratch.gathered_gradient.view(rows, hidden);
  gather_rows<T>(dy, std::span(routing.tokens).subspan(group.first_place, rows), gradient);
  const auto outputs = scratch.outputs.view(rows, hidden), part = scratch.part.view(rows, hidden);
  const auto inner = scratch.inner.view(rows, widest_inner_);
  const auto activated = scratch.activated.view(rows, widest_);
  const auto gradient_activated = scratch.gradient_activated.view(rows, widest_);
  for_experts<T>(group, routing, hooks != nullptr, [&](std::size_t e, std::size_t first, std::size_t count) {
    const Mlp<T>& mlp = experts_[e];
    const auto input = gathered.part(first, count);
    const MlpRows<T> memory{
        inner.block(first, 0, count, mlp.inner_width()), activated.block(first, 0, count, mlp.intermediate()),
        gradient_activated.block(first, 0, count, mlp.intermediate()), part.rows_slice(first, count)};
    const std::size_t place = group.first_place + first;
    mlp.recompute(input, memory);
    mlp.backward_weighted(
        input, gradient.rows_slice(first, count),
        {std::span(routing.weights).subspan(place, count), std::span(routing.gradient).subspan(place, count)},
        outputs.rows_slice(first, count), memory, hooks, {routing.tokens_of(e)});
  });
  scatter_add<T>(routing, outputs, group.first_place, false, dx);
}

template <class T>
void Experts<T>::backward_shared(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                                 FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const {
  const auto output = scratch.outputs.view(x.rows(), x.cols());
  shared_->recompute(x, {}, scratch);
  if (!shared_gate_) {
    shared_->backward(x, dy, output, scratch, hooks);
    return add<T>(output, dx);
  }
  const auto share = shared_weights(x, scratch, nullptr);
  const auto slope = scratch.gradient_shared_weights.view(x.rows(), 1);
  const auto gradient = scratch.gathered_gradient.view(x.rows(), x.cols());
  for (std::size_t t = 0; t < x.rows(); ++t) std::copy_n(dy.row(t).data(), x.cols(), gradient.row(t).data());
  shared_->backward_weighted(x, gradient, {share, std::span(slope.data(), x.rows())}, output, scratch, hooks);
  add<T>(output, dx);
  // From the weight sigmoid(l) to l.
  for (std::size_t t = 0; t < x.rows(); ++t) slope(t, 0) *= share[t] * (T(1) - share[t]);
  shared_gate_->backward(x, slope, output, hooks);
  add<T>(output, dx);
}

template <class T>
void Experts<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                          FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const {
  check_shapes(x, dy);
  check_shapes(x, dx);
  set_zero<T>(dx);
  for (const ExpertGroup& group : expert_groups<T>(scratch.routing, x.rows()))
    backward_group(group, x, dy, dx, scratch, hooks);
  if (shared_) backward_shared(x, dy, dx, scratch, hooks);
  // What recompute() left of the logits is still there.
  const auto logits = scratch.router_logits.view(x.rows(), experts_.size());
  route_backward<T>(rule_, scratch.routing, logits);
  const auto part = scratch.part.view(x.rows(), x.cols());
  router_.backward(x, logits, part, hooks);
  add<T>(part, dx);
}

#define NIBBLE_INSTANTIATE(T)                                                                                         \
  template void Experts<T>::recompute(MatrixView<const T>, MatrixView<T>, FeedForwardScratch<T>&) const;              \
  template void Experts<T>::backward(MatrixView<const T>, MatrixView<const T>, MatrixView<T>, FeedForwardScratch<T>&, \
                                     const Hooks<T>*) const;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
