#pragma once

#include <cstddef>
#include <span>

#include "core/matrix_view.h"
#include "model/transformer/layers/kv_source.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// Grouped-query attention: query head h reads key-value head h / (heads / kv_heads).
struct AttentionShape {
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
};

/// One sequence. Its last q.rows() positions are asked; query r sees keys 0 … k.rows() - q.rows() + r.
template <class T>
struct AttentionSequence {
  MatrixView<const T> q;     ///< (queries, heads * head_dim), after the rotary embedding
  MatrixView<const T> k, v;  ///< (keys, kv_heads * head_dim), keys >= queries
  MatrixView<T> out;         ///< (queries, heads * head_dim)
  MatrixView<T> log_sums;    ///< (heads, queries): ln of each softmax denominator, for the backward pass; or empty
};

/// out = softmax(q kᵀ / sqrt(head_dim), causal) v for every head of every sequence, on all threads.
/// Fused: tiles of queries walk over tiles of keys up to the diagonal with a running maximum and sum (Milakov and
/// Gimelshein 2018; Dao et al. 2022); scratch is one tile of scores per thread. Decomposed: the (queries, keys) scores
/// of a head are held at once, per thread. They differ by rounding only.
template <class T>
void attention_forward(const AttentionShape& shape, std::span<const AttentionSequence<T>> sequences, Attention how);

/// The same for one sequence whose `keys` keys and values come from anywhere: q (queries, heads * head_dim) are its
/// last positions, out has the shape of q.
template <class T>
void attention_over(const AttentionShape& shape, MatrixView<const T> q, const KvSource<T>& source, std::size_t keys,
                    MatrixView<T> out, Attention how);

/// The same sequence on the way back: `forward` as attention_forward() left it, log_sums included.
template <class T>
struct AttentionGradient {
  AttentionSequence<T> forward;
  MatrixView<const T> dout;  ///< (queries, heads * head_dim)
  MatrixView<T> dq, dk, dv;  ///< overwritten; shapes of q, k, v
};

/// Requires keys == queries. Scores are recomputed tile by tile and never held as a whole. Shared out by (sequence,
/// key-value head).
template <class T>
void attention_backward(const AttentionShape& shape, std::span<const AttentionGradient<T>> sequences);

}  // namespace nibble::model
