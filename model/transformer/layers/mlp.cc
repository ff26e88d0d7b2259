#include "model/transformer/layers/mlp.h"

#include "core/error.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
Mlp<T>::Mlp(const MlpSpec& spec, const MakeLinear& make_linear, std::vector<T> down_bias)
    : rule_{spec.activation, spec.gate.has_value(), spec.limit, spec.alpha},
      up_{spec.up.module, nullptr},
      down_{spec.down.module, nullptr},
      down_bias_(std::move(down_bias)) {
  const auto fits = [&](const Parameter& p) { return p.in == spec.down.out && p.out == spec.down.in; };
  NIBBLE_REQUIRE(fits(spec.up) && (!spec.gate || fits(*spec.gate)), InvalidArgument,
                 "mlp {}: gate and up must be ({}, {}), the reverse of down; up is ({}, {})", spec.down.module,
                 spec.down.in, spec.down.out, spec.up.out, spec.up.in);
  NIBBLE_REQUIRE(rule_.activation != Activation::kClampedSwiglu || (rule_.gated && rule_.limit > 0.0), InvalidArgument,
                 "mlp {}: clamped_swiglu needs a gate and a limit above 0, got {}", spec.down.module, rule_.limit);
  if (spec.gate) gate_ = NamedLinear<T>{spec.gate->module, make_linear(*spec.gate)};
  up_.op = make_linear(spec.up);
  down_.op = make_linear(spec.down);
}

template <class T>
void Mlp<T>::check_shapes(MatrixView<const T> x, MatrixView<const T> y) const {
  NIBBLE_REQUIRE(x.cols() == hidden() && y.cols() == hidden() && x.rows() == y.rows(), InvalidArgument,
                 "mlp {}: expected two matrices (tokens, {}), got ({}, {}) and ({}, {})", down_.module, hidden(),
                 x.rows(), x.cols(), y.rows(), y.cols());
}

template <class T>
bool Mlp<T>::into_inner(MatrixView<const T> x, MatrixView<T> inner, const Hooks<T>* hooks, const HookRows& rows) const {
  if (gate_ && !gate_->forward(x, inner.cols_slice(0, intermediate()), hooks, rows)) return false;
  return up_.forward(x, inner.cols_slice(inner_width() - intermediate(), intermediate()), hooks, rows);
}

template <class T>
bool Mlp<T>::forward(MatrixView<const T> x, MatrixView<T> y, const MlpRows<T>& memory, const Hooks<T>* hooks,
                     const HookRows& rows) const {
  if (!into_inner(x, memory.inner, hooks, rows)) return false;
  activate<T>(rule_, memory.inner, memory.activated);
  return down_.forward(memory.activated, y, hooks, rows);
}

template <class T>
void Mlp<T>::recompute(MatrixView<const T> x, const MlpRows<T>& memory) const {
  into_inner(x, memory.inner, nullptr, {});
  activate<T>(rule_, memory.inner, memory.activated);
}

template <class T>
void Mlp<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, const MlpRows<T>& memory,
                      const Hooks<T>* hooks, const HookRows& rows) const {
  down_.backward(memory.activated, dy, memory.gradient_activated, hooks, rows);
  backward_from_activated(x, dx, memory, hooks, rows);
}

template <class T>
void Mlp<T>::backward_weighted(MatrixView<const T> x, MatrixView<T> dy, const RowWeights<T>& weights, MatrixView<T> dx,
                               const MlpRows<T>& memory, const Hooks<T>* hooks, const HookRows& rows) const {
  down_.op->backward_input(dy, memory.gradient_activated);
  parallel_for_tiles(x.rows(), 8, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const auto gradient = memory.gradient_activated.row(r), activated = memory.activated.row(r), d = dy.row(r);
      WideOf<T> product{};
      for (std::size_t i = 0; i < gradient.size(); ++i) product += static_cast<WideOf<T>>(gradient[i] * activated[i]);
      for (std::size_t i = 0; i < down_bias_.size(); ++i) product += static_cast<WideOf<T>>(d[i] * down_bias_[i]);
      weights.gradient[r] = static_cast<T>(product);
      for (T& value : gradient) value *= weights.weights[r];
      for (T& value : d) value *= weights.weights[r];
    }
  });
  if (hooks != nullptr && hooks->on_linear_gradient)
    hooks->on_linear_gradient(down_.module, memory.activated, dy, rows);
  backward_from_activated(x, dx, memory, hooks, rows);
}

template <class T>
void Mlp<T>::backward_from_activated(MatrixView<const T> x, MatrixView<T> dx, const MlpRows<T>& memory,
                                     const Hooks<T>* hooks, const HookRows& rows) const {
  activation_backward<T>(rule_, memory.gradient_activated, memory.inner);
  const auto gradient_up = memory.inner.cols_slice(inner_width() - intermediate(), intermediate());
  if (!gate_) return up_.backward(x, gradient_up, dx, hooks, rows);
  gate_->backward(x, memory.inner.cols_slice(0, intermediate()), dx, hooks, rows);
  up_.backward(x, gradient_up, memory.part, hooks, rows);
  add<T>(memory.part, dx);
}

template <class T>
bool Mlp<T>::forward(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
                     const Hooks<T>* hooks) const {
  check_shapes(x, y);
  const auto inner = scratch.inner.view(x.rows(), inner_width());
  return forward(x, y, {inner, inner.cols_slice(0, intermediate()), {}, {}}, hooks, {});
}

template <class T>
void Mlp<T>::recompute(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch) const {
  check_shapes(x, y.empty() ? x : MatrixView<const T>(y));
  const MlpRows<T> memory{
      scratch.inner.view(x.rows(), inner_width()), scratch.activated.view(x.rows(), intermediate()), {}, {}};
  recompute(x, memory);
  if (!y.empty()) down_.op->forward(memory.activated, y);
}

template <class T>
MlpRows<T> Mlp<T>::backward_rows(std::size_t rows, FeedForwardScratch<T>& scratch) const {
  return {scratch.inner.view(rows, inner_width()), scratch.activated.view(rows, intermediate()),
          scratch.gradient_activated.view(rows, intermediate()),
          gate_ ? scratch.part.view(rows, hidden()) : MatrixView<T>{}};
}

template <class T>
void Mlp<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, FeedForwardScratch<T>& scratch,
                      const Hooks<T>* hooks) const {
  check_shapes(x, dy);
  check_shapes(x, dx);
  backward(x, dy, dx, backward_rows(x.rows(), scratch), hooks, {});
}

template <class T>
void Mlp<T>::backward_weighted(MatrixView<const T> x, MatrixView<T> dy, const RowWeights<T>& weights, MatrixView<T> dx,
                               FeedForwardScratch<T>& scratch, const Hooks<T>* hooks) const {
  backward_weighted(x, dy, weights, dx, backward_rows(x.rows(), scratch), hooks, {});
}

template <class T>
void Mlp<T>::release() const {
  if (gate_) gate_->op->release();
  up_.op->release();
  down_.op->release();
}

#define NIBBLE_INSTANTIATE(T) template class Mlp<T>;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
