#include <complex>

#include "model/transformer/layers/activation.h"
#include "model/transformer/layers/block.h"

namespace nibble::model {

template <class T>
void Block<T>::backward(const Layout& layout, MatrixView<const T> x_in, MatrixView<T> dx, Rotary<T>* rotary,
                        BlockScratch<T>& scratch, const Hooks<T>* hooks) const {
  const std::size_t tokens = layout.rows(), hidden = x_in.cols();
  using Direction = typename Rotary<T>::Direction;

  // Again forward, keeping every input of a linear layer; the layers' own output of the MLP is not needed.
  const auto normed = scratch.normed.view(tokens, hidden);
  attention_norm.forward(x_in, normed);
  const auto qkv_rows = scratch.qkv.view(tokens, q_width() + 2 * kv_width());
  forward_side_by_side<T>(qkv, normed, qkv_rows, nullptr);
  const auto rotating = [&](MatrixView<T> rows) { return rows.cols_slice(0, q_width() + kv_width()); };
  if (rotary != nullptr) rotary->rotate(rotating(qkv_rows), layout.positions, Direction::kForward);
  const auto attended = scratch.attended.view(tokens, q_width());
  const auto forward_sequences = sequences(layout, qkv_rows, attended, scratch.log_sums.view(attention.heads, tokens));
  attention_forward<T>(attention, forward_sequences, Attention::kFused);
  const auto middle = scratch.middle.view(tokens, hidden);
  attention_out.forward(attended, middle, nullptr);
  add<T>(x_in, middle);
  const auto mlp_normed = scratch.mlp_normed.view(tokens, hidden);
  mlp_norm.forward(middle, mlp_normed);
  const auto inner = scratch.inner.view(tokens, mlp_in.size() * intermediate());
  forward_side_by_side<T>(mlp_in, mlp_normed, inner, nullptr);
  const auto activated = scratch.activated.view(tokens, intermediate());
  activate<T>(inner, activated);

  // Back through the MLP: dx becomes the gradient at `middle`.
  const auto gradient = scratch.gradient_hidden.view(tokens, hidden);
  const auto part = scratch.gradient_part.view(tokens, hidden);
  const auto dactivated = scratch.gradient_activated.view(tokens, intermediate());
  mlp_out.backward(activated, dx, dactivated, hooks);
  activation_backward<T>(dactivated, inner);
  backward_side_by_side<T>(mlp_in, mlp_normed, inner, gradient, part, hooks);
  mlp_norm.backward_add(middle, gradient, dx);

  // Back through the attention.
  const auto dattended = scratch.gradient_attended.view(tokens, q_width());
  attention_out.backward(attended, dx, dattended, hooks);
  const auto dqkv = scratch.gradient_qkv.view(tokens, q_width() + 2 * kv_width());
  std::vector<AttentionGradient<T>> gradients;
  for (std::size_t s = 0; s < forward_sequences.size(); ++s) {
    const std::size_t first = layout.starts[s], count = layout.starts[s + 1] - first;
    const auto rows = dqkv.rows_slice(first, count);
    gradients.push_back({forward_sequences[s], dattended.rows_slice(first, count), rows.cols_slice(0, q_width()),
                         rows.cols_slice(q_width(), kv_width()), rows.cols_slice(q_width() + kv_width(), kv_width())});
  }
  attention_backward<T>(attention, gradients);
  if (rotary != nullptr) rotary->rotate(rotating(dqkv), layout.positions, Direction::kBackward);
  backward_side_by_side<T>(qkv, normed, dqkv, gradient, part, hooks);
  attention_norm.backward_add(x_in, gradient, dx);
}

template void Block<float>::backward(const Layout&, MatrixView<const float>, MatrixView<float>, Rotary<float>*,
                                     BlockScratch<float>&, const Hooks<float>*) const;
template void Block<double>::backward(const Layout&, MatrixView<const double>, MatrixView<double>, Rotary<double>*,
                                      BlockScratch<double>&, const Hooks<double>*) const;
template void Block<std::complex<double>>::backward(const Layout&, MatrixView<const std::complex<double>>,
                                                    MatrixView<std::complex<double>>, Rotary<std::complex<double>>*,
                                                    BlockScratch<std::complex<double>>&,
                                                    const Hooks<std::complex<double>>*) const;

}  // namespace nibble::model
