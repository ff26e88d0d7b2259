
#include "model/transformer/layers/block.h"
#include "model/transformer/layers/clip.h"
#include "model/transformer/layers/growth.h"
#include "model/transformer/layers/side_by_side.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
void Block<T>::project_backward(const Layout& layout, MatrixView<T> dqkv, Rotary<T>* rotary,
                                BlockScratch<T>& scratch) const {
  const std::size_t q_end = q_width(), k_end = q_end + kv_width();
  const auto dqk = dqkv.cols_slice(0, k_end);
  grow_queries(dqk.cols_slice(0, q_end), growth, layout.positions);
  const auto turn_back = [&] {
    if (rotary != nullptr) rotary->rotate(dqk, attention.head_dim, layout, Rotary<T>::Direction::kBackward);
  };
  if (!norms_behind_rotary) turn_back();
  if (!keeps_raw()) return;
  const auto raw = scratch.raw_qk.view(layout.rows(), k_end);
  if (q_norm) q_norm->backward(raw.cols_slice(0, q_end), dqk.cols_slice(0, q_end));
  if (k_norm) k_norm->backward(raw.cols_slice(q_end, kv_width()), dqk.cols_slice(q_end, kv_width()));
  if (norms_behind_rotary) turn_back();
  if (clip <= 0.0) return;
  clamp_backward<T>(raw, clip, dqk);
  const auto v = scratch.qkv.view(layout.rows(), k_end + kv_width()).cols_slice(k_end, kv_width());
  clamp_backward<T>(v, clip, dqkv.cols_slice(k_end, kv_width()));
}

template <class T>
MatrixView<const T> Block<T>::output_gradient(const std::optional<Norm<T>>& post_norm, MatrixView<const T> output,
                                              MatrixView<const T> dx, BlockScratch<T>& scratch) const {
  if (!post_norm && residual_multiplier == 1.0) return dx;
  const auto gradient = scratch.gradient_output.view(dx.rows(), dx.cols());
  copy_scaled<T>(residual_multiplier, dx, gradient);
  if (post_norm) post_norm->backward(output, gradient);
  return gradient;
}

template <class T>
void Block<T>::backward(const Layout& layout, MatrixView<const T> x_in, MatrixView<T> dx, Rotary<T>* rotary,
                        BlockScratch<T>& scratch, const Hooks<T>* hooks) const {
  const std::size_t tokens = layout.rows(), hidden = x_in.cols();
  const auto hidden_rows = [&](Buffer<T>& buffer) { return buffer.view(tokens, hidden); };
  const auto normed_with = [&](const std::optional<Norm<T>>& norm, MatrixView<const T> x,
                               Buffer<T>& buffer) -> MatrixView<const T> {
    if (!norm) return x;
    norm->forward(x, hidden_rows(buffer));
    return hidden_rows(buffer);
  };

  // Again forward, keeping every input of a linear layer and of a norm.
  const MatrixView<const T> input = normed_with(attention_norm, x_in, scratch.normed);
  const auto qkv_rows = project(layout, input, rotary, keeps_raw(), scratch, nullptr);
  const auto attended = scratch.attended.view(tokens, q_width());
  const auto forward_sequences = sequences(layout, qkv_rows, attended, scratch.log_sums.view(attention.heads, tokens));
  attention_forward<T>(attention, forward_sequences, Attention::kFused);
  MatrixView<T> projected;  // needed by a norm behind it alone
  if (attention_post_norm) {
    projected = hidden_rows(scratch.projected);
    attention_out.op->forward(attended, projected);
  }
  MatrixView<const T> middle = x_in;  // what the MLP's half begins with
  if (!parallel()) {
    const auto sum = hidden_rows(scratch.middle);
    attention_post_norm ? attention_post_norm->forward(projected, sum) : attention_out.op->forward(attended, sum);
    if (residual_multiplier != 1.0) copy_scaled<T>(residual_multiplier, sum, sum);
    add<T>(x_in, sum);
    middle = sum;
  }
  const MatrixView<const T> mlp_input = shares_norm() ? input : normed_with(mlp_norm, middle, scratch.mlp_normed);
  const auto mlp_output = mlp_post_norm ? hidden_rows(scratch.mlp_output) : MatrixView<T>();
  mlp->recompute(mlp_input, mlp_output, scratch.feed_forward);

  // Back through the halves, the MLP first. Those of a parallel block both begin with dx as it is now; in a sequential
  // block the MLP's half turns dx into the gradient at `middle`.
  const auto gradient = hidden_rows(scratch.gradient);
  const auto dattended = scratch.gradient_attended.view(tokens, q_width());
  const auto attention_out_backward = [&] {
    attention_out.backward(attended, output_gradient(attention_post_norm, projected, dx, scratch), dattended, hooks);
  };
  mlp->backward(mlp_input, output_gradient(mlp_post_norm, mlp_output, dx, scratch), gradient, scratch.feed_forward,
                hooks);
  if (parallel()) attention_out_backward();
  if (mlp_norm) {
    mlp_norm->backward_add(middle, gradient, dx);
  } else if (!shares_norm()) {
    add<T>(gradient, dx);
  }
  if (!parallel()) attention_out_backward();

  const auto dqkv = scratch.gradient_qkv.view(tokens, q_width() + 2 * kv_width());
  std::vector<AttentionGradient<T>> gradients;
  for (std::size_t s = 0; s < forward_sequences.size(); ++s) {
    const std::size_t first = layout.starts[s], count = layout.starts[s + 1] - first;
    const auto rows = dqkv.rows_slice(first, count);
    gradients.push_back({forward_sequences[s], dattended.rows_slice(first, count), rows.cols_slice(0, q_width()),
                         rows.cols_slice(q_width(), kv_width()), rows.cols_slice(q_width() + kv_width(), kv_width())});
  }
  attention_backward<T>(attention, gradients);
  project_backward(layout, dqkv, rotary, scratch);
  const auto input_gradient = hidden_rows(scratch.gradient_attended);  // used up
  backward_side_by_side<T>(qkv, input, dqkv, input_gradient, hidden_rows(scratch.feed_forward.part), hooks);
  if (shares_norm()) add<T>(gradient, input_gradient);
  if (attention_norm) {
    attention_norm->backward_add(x_in, input_gradient, dx);
  } else {
    add<T>(input_gradient, dx);
  }
}

#define NIBBLE_INSTANTIATE(T)                                                                                       \
  template void Block<T>::backward(const Layout&, MatrixView<const T>, MatrixView<T>, Rotary<T>*, BlockScratch<T>&, \
                                   const Hooks<T>*) const;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
