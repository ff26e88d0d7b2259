#pragma once

#include <optional>
#include <vector>

#include "model/transformer/kv_cache.h"
#include "model/transformer/layers/attention.h"
#include "model/transformer/layers/layout.h"
#include "model/transformer/layers/linear.h"
#include "model/transformer/layers/norm.h"
#include "model/transformer/layers/rope.h"

namespace nibble::model {

/// Intermediate activations of one block, kept between calls. With n = 1 (GPT-2) or 2 (Llama) linear layers into the
/// MLP, forward takes  hidden + 2 q_width + 2 kv_width + n intermediate  values per token, backward
/// 5 hidden + 4 q_width + 4 kv_width + (n + 2) intermediate + heads.
template <class T>
struct BlockScratch {
  Buffer<T> normed, qkv, attended, inner;             // forward
  Buffer<T> middle, mlp_normed, activated, log_sums;  // recomputed by backward
  Buffer<T> gradient_hidden, gradient_part, gradient_qkv, gradient_attended, gradient_activated;
};

/// One pre-norm transformer block over the residual stream x (tokens, hidden):
///   x += attention_out(attention(qkv(attention_norm(x))));   x += mlp_out(activation(mlp_in(mlp_norm(x))))
/// GPT-2 has one fused qkv and one mlp_in (gelu_new); Llama has three (rotary q and k) and two (silu(gate) * up). The
/// outputs of several layers lie side by side.
template <class T>
struct Block {
  AttentionShape attention;
  Norm<T> attention_norm;
  std::vector<NamedLinear<T>> qkv;
  NamedLinear<T> attention_out;
  Norm<T> mlp_norm;
  std::vector<NamedLinear<T>> mlp_in;
  NamedLinear<T> mlp_out;

  /// `rotary` is null for learned positions. With `cache`, the one sequence of `layout` stands behind the
  /// cache.length() positions of `cache`, and layer `index` of it keeps its keys and values.
  void forward(const Layout& layout, MatrixView<T> x, Attention how, Rotary<T>* rotary, KvCache<T>* cache,
               std::size_t index, BlockScratch<T>& scratch, const Hooks<T>* hooks) const;
  /// See Transformer::backward_block().
  void backward(const Layout& layout, MatrixView<const T> x_in, MatrixView<T> dx, Rotary<T>* rotary,
                BlockScratch<T>& scratch, const Hooks<T>* hooks) const;
  void release() const;

  std::size_t q_width() const { return attention.heads * attention.head_dim; }
  std::size_t kv_width() const { return attention.kv_heads * attention.head_dim; }
  std::size_t intermediate() const { return mlp_out.op->in_features(); }

 private:
  std::vector<AttentionSequence<T>> sequences(const Layout& layout, MatrixView<T> qkv_rows, MatrixView<T> out,
                                              MatrixView<T> log_sums) const;
};

}  // namespace nibble::model
