#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/transformer/kv_cache.h"
#include "model/transformer/layers/attention.h"
#include "model/transformer/layers/feed_forward.h"
#include "model/transformer/layers/layout.h"
#include "model/transformer/layers/linear.h"
#include "model/transformer/layers/norm.h"
#include "model/transformer/layers/rope.h"

namespace nibble::model {

/// Intermediate activations of one block, kept between calls for the largest block and batch. In values of T per token,
/// besides those of the feed-forward half (feed_forward.h):
///   forward   hidden (`normed`, where there is a norm in front) + max(q_width + 2 kv_width, hidden)
///             + max(q_width, hidden)
///   backward  those of forward, and hidden (`gradient`) + max(q_width, hidden) + q_width + 2 kv_width + heads,
///             + hidden (`middle`) in sequential blocks, + hidden for a norm in front of the MLP,
///             + hidden behind each half that has a norm behind it, + hidden for those or a residual multiplier,
///             + q_width + kv_width where queries or keys have norms or are clipped
/// model/architecture adds them up: forward_floats_per_token(), backward_floats_per_token().
template <class T>
struct BlockScratch {
  Buffer<T> normed, qkv, attended;                                        // forward
  Buffer<T> raw_qk, projected, middle, mlp_normed, mlp_output, log_sums;  // recomputed by backward
  Buffer<T> gradient, gradient_output, gradient_qkv, gradient_attended;
  FeedForwardScratch<T> feed_forward;

  std::size_t size() const;  ///< values that all of them hold
};

/// One transformer block over the residual stream x (tokens, hidden), with m = residual_multiplier:
///   sequential  x += m · post_a(o(attention(norm_a(x))));  x += m · post_m(mlp(norm_m(x)))
///   parallel    x += m · (post_a(o(attention(norm_a(x)))) + post_m(mlp(norm_m(x)))), an absent norm_m being norm_a
/// where q, k and v of the attention are clamped to ± clip, q and k normalised and turned (rotary), or turned and
/// normalised, and q grown. Norms that are not there leave their input as it is.
template <class T>
struct Block {
  BlockSpec::Residual residual = BlockSpec::Residual::kSequential;
  double residual_multiplier = 1.0;
  AttentionShape attention;
  double clip = 0.0;
  QueryGrowth growth;
  std::optional<Norm<T>> attention_norm, q_norm, k_norm, attention_post_norm, mlp_norm, mlp_post_norm;
  bool norms_behind_rotary = false;  ///< those of q and k; no clip then
  std::vector<NamedLinear<T>> qkv;   ///< their outputs lie side by side
  NamedLinear<T> attention_out;
  std::unique_ptr<FeedForward<T>> mlp;

  /// `rotary` is null where positions do not turn. With `cache`, the one sequence of `layout` stands behind the
  /// cache.length() positions of `cache`, and layer `index` of it keeps its keys and values.
  /// False if the pass ended in the block (Hooks::until): x is unspecified then.
  bool forward(const Layout& layout, MatrixView<T> x, Attention how, Rotary<T>* rotary, KvCache<T>* cache,
               std::size_t index, BlockScratch<T>& scratch, const Hooks<T>* hooks) const;
  /// See Transformer::backward_block().
  void backward(const Layout& layout, MatrixView<const T> x_in, MatrixView<T> dx, Rotary<T>* rotary,
                BlockScratch<T>& scratch, const Hooks<T>* hooks) const;
  void release() const;

  std::size_t q_width() const { return attention.heads * attention.head_dim; }
  std::size_t kv_width() const { return attention.kv_heads * attention.head_dim; }

 private:
  using Sequences = std::vector<AttentionSequence<T>>;

  bool parallel() const { return residual == BlockSpec::Residual::kParallel; }
  bool shares_norm() const { return parallel() && !mlp_norm; }
  /// Whether q and k are to be kept as their norms take them (before a rotary in front): backward needs them.
  bool keeps_raw() const { return q_norm || k_norm || clip > 0.0; }

  /// Fills scratch.qkv with q, k and v of `input` as the attention sees them, and scratch.raw_qk where `keep_raw`.
  /// Nothing if the pass ends at one of them.
  MatrixView<T> project(const Layout& layout, MatrixView<const T> input, Rotary<T>* rotary, bool keep_raw,
                        BlockScratch<T>& scratch, const Hooks<T>* hooks) const;
  /// Turns dqkv from the gradient of what project() gave into that of the linear layers' outputs.
  void project_backward(const Layout& layout, MatrixView<T> dqkv, Rotary<T>* rotary, BlockScratch<T>& scratch) const;
  /// The gradient of a half's output, post norm undone, given that of the residual stream behind it: dx itself where
  /// nothing is between them.
  MatrixView<const T> output_gradient(const std::optional<Norm<T>>& post_norm, MatrixView<const T> output,
                                      MatrixView<const T> dx, BlockScratch<T>& scratch) const;
  Sequences sequences(const Layout& layout, MatrixView<T> qkv_rows, MatrixView<T> out, MatrixView<T> log_sums) const;
};

}  // namespace nibble::model
