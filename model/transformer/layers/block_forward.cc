#include <complex>

#include "model/transformer/layers/activation.h"
#include "model/transformer/layers/block.h"

namespace nibble::model {
template <class T>
std::vector<AttentionSequence<T>> Block<T>::sequences(const Layout& layout, MatrixView<T> qkv_rows, MatrixView<T> out,
                                                      MatrixView<T> log_sums) const {
  std::vector<AttentionSequence<T>> list;
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
void Block<T>::forward(const Layout& layout, MatrixView<T> x, Attention how, Rotary<T>* rotary, KvCache<T>* cache,
                       std::size_t index, BlockScratch<T>& scratch, const Hooks<T>* hooks) const {
  const std::size_t tokens = layout.rows();
  const auto normed = scratch.normed.view(tokens, x.cols());
  attention_norm.forward(x, normed);
  const auto qkv_rows = scratch.qkv.view(tokens, q_width() + 2 * kv_width());
  forward_side_by_side<T>(qkv, normed, qkv_rows, hooks);
  if (rotary != nullptr)
    rotary->rotate(qkv_rows.cols_slice(0, q_width() + kv_width()), layout.positions, Rotary<T>::Direction::kForward);

  const auto attended = scratch.attended.view(tokens, q_width());
  if (cache != nullptr) {
    cache->attend(index, attention, qkv_rows.cols_slice(0, q_width()), qkv_rows.cols_slice(q_width(), kv_width()),
                  qkv_rows.cols_slice(q_width() + kv_width(), kv_width()), attended, how);
  } else {
    attention_forward<T>(attention, sequences(layout, qkv_rows, attended, {}), how);
  }
  attention_out.forward(attended, normed, hooks);
  add<T>(normed, x);

  mlp_norm.forward(x, normed);
  const auto inner = scratch.inner.view(tokens, mlp_in.size() * intermediate());
  forward_side_by_side<T>(mlp_in, normed, inner, hooks);
  const auto activated = inner.cols_slice(0, intermediate());
  activate<T>(inner, activated);
  mlp_out.forward(activated, normed, hooks);
  add<T>(normed, x);
}

template <class T>
void Block<T>::release() const {
  for (const auto& linear : qkv) linear.op->release();
  attention_out.op->release();
  for (const auto& linear : mlp_in) linear.op->release();
  mlp_out.op->release();
}

template struct Block<float>;
template struct Block<double>;
template struct Block<std::complex<double>>;

}  // namespace nibble::model
