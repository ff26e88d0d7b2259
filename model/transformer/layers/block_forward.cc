#include <algorithm>

#include "model/transformer/layers/block.h"
#include "model/transformer/layers/clip.h"
#include "model/transformer/layers/growth.h"
#include "model/transformer/layers/side_by_side.h"
#include "model/transformer/scalar.h"

namespace nibble::model {

template <class T>
std::size_t BlockScratch<T>::size() const {
  const FeedForwardScratch<T>& f = feed_forward;
  std::size_t values = 0;
  for (const Buffer<T>* buffer : {&normed,
                                  &qkv,
                                  &attended,
                                  &raw_qk,
                                  &projected,
                                  &middle,
                                  &mlp_normed,
                                  &mlp_output,
                                  &log_sums,
                                  &gradient,
                                  &gradient_output,
                                  &gradient_qkv,
                                  &gradient_attended,
                                  &f.inner,
                                  &f.activated,
                                  &f.gradient_activated,
                                  &f.part,
                                  &f.router_logits,
                                  &f.gathered,
                                  &f.gathered_gradient,
                                  &f.outputs,
                                  &f.shared_weights,
                                  &f.gradient_shared_weights})
    values += buffer->size();
  return values;
}

template <class T>
typename Block<T>::Sequences Block<T>::sequences(const Layout& layout, MatrixView<T> qkv_rows, MatrixView<T> out,
                                                 MatrixView<T> log_sums) const {
  Sequences list;
  for (std::size_t s = 0; s < layout.sequences(); ++s) {
    const std::size_t first = layout.starts[s], count = layout.starts[s + 1] - first;
    const auto rows = qkv_rows.rows_slice(first, count);
    list.push_back({rows.cols_slice(0, q_width()), rows.cols_slice(q_width(), kv_width()),
                    rows.cols_slice(q_width() + kv_width(), kv_width()), out.rows_slice(first, count),
                    log_sums.empty() ? log_sums : log_sums.cols_slice(first, count)});
  }
  return list;
}

template <class T>
MatrixView<T> Block<T>::project(const Layout& layout, MatrixView<const T> input, Rotary<T>* rotary, bool keep_raw,
                                BlockScratch<T>& scratch, const Hooks<T>* hooks) const {
  const auto rows = scratch.qkv.view(layout.rows(), q_width() + 2 * kv_width());
  if (!forward_side_by_side<T>(qkv, input, rows, hooks)) return {};
  if (clip > 0.0) clamp_to(rows, clip);
  const auto qk = rows.cols_slice(0, q_width() + kv_width());
  const auto turn = [&] {
    if (rotary != nullptr) rotary->rotate(qk, attention.head_dim, layout, Rotary<T>::Direction::kForward);
  };
  if (norms_behind_rotary) turn();
  if (keep_raw) copy<T>(qk, scratch.raw_qk.view(qk.rows(), qk.cols()));
  const auto q = rows.cols_slice(0, q_width()), k = rows.cols_slice(q_width(), kv_width());
  if (q_norm) q_norm->forward(q, q);
  if (k_norm) k_norm->forward(k, k);
  if (!norms_behind_rotary) turn();
  grow_queries(q, growth, layout.positions);
  return rows;
}

template <class T>
bool Block<T>::forward(const Layout& layout, MatrixView<T> x, Attention how, Rotary<T>* rotary, KvCache<T>* cache,
                       std::size_t index, BlockScratch<T>& scratch, const Hooks<T>* hooks) const {
  const std::size_t tokens = layout.rows(), hidden = x.cols();
  const auto normed_with = [&](const Norm<T>& norm) -> MatrixView<const T> {
    const auto y = scratch.normed.view(tokens, hidden);
    norm.forward(x, y);
    return y;
  };
  const MatrixView<const T> input = attention_norm ? normed_with(*attention_norm) : x;
  const auto qkv_rows = project(layout, input, rotary, false, scratch, hooks);
  if (qkv_rows.empty()) return false;
  const auto attended = scratch.attended.view(tokens, q_width());
  if (cache != nullptr) {
    cache->attend(index, attention, qkv_rows.cols_slice(0, q_width()), qkv_rows.cols_slice(q_width(), kv_width()),
                  qkv_rows.cols_slice(q_width() + kv_width(), kv_width()), attended, how);
  } else {
    attention_forward<T>(attention, sequences(layout, qkv_rows, attended, {}), how);
  }
  const auto projected = scratch.qkv.view(tokens, hidden);  // q, k and v are used up
  if (!attention_out.forward(attended, projected, hooks)) return false;
  if (attention_post_norm) attention_post_norm->forward(projected, projected);
  MatrixView<const T> mlp_input = input;  // in a parallel block of the stream as it was, and perhaps the stream itself
  if (parallel() && mlp_norm) mlp_input = normed_with(*mlp_norm);
  const bool added_late = parallel() && !mlp_norm && !attention_norm;
  if (!added_late) add_scaled<T>(residual_multiplier, projected, x);
  if (!parallel()) mlp_input = mlp_norm ? normed_with(*mlp_norm) : MatrixView<const T>(x);

  const auto output = scratch.attended.view(tokens, hidden);  // used up too
  if (!mlp->forward(mlp_input, output, scratch.feed_forward, hooks)) return false;
  if (mlp_post_norm) mlp_post_norm->forward(output, output);
  if (added_late) add_scaled<T>(residual_multiplier, projected, x);
  add_scaled<T>(residual_multiplier, output, x);
  return true;
}

template <class T>
void Block<T>::release() const {
  for (const auto& linear : qkv) linear.op->release();
  attention_out.op->release();
  mlp->release();
}

#define NIBBLE_INSTANTIATE(T)                                                                                      \
  template struct BlockScratch<T>;                                                                                 \
  template typename Block<T>::Sequences Block<T>::sequences(const Layout&, MatrixView<T>, MatrixView<T>,           \
                                                            MatrixView<T>) const;                                  \
  template MatrixView<T> Block<T>::project(const Layout&, MatrixView<const T>, Rotary<T>*, bool, BlockScratch<T>&, \
                                           const Hooks<T>*) const;                                                 \
  template bool Block<T>::forward(const Layout&, MatrixView<T>, Attention, Rotary<T>*, KvCache<T>*, std::size_t,   \
                                  BlockScratch<T>&, const Hooks<T>*) const;                                        \
  template void Block<T>::release() const;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
