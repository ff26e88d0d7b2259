#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "model/transformer/layers/kv_source.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// Grouped-query attention: query head h reads key-value head h / (heads / kv_heads). Of query i over key j
///   score = cap(scale · qᵢ · kⱼ) + alibi[h] · (j - i),   cap(s) = softcap · tanh(s / softcap), or s
///   weight = exp(score) / (Σ over the keys seen of exp(score) + exp(sinks[h])),   outᵢ = Σ weight · vⱼ
/// where i sees the `window` newest keys up to its own position, itself included.
struct AttentionShape {
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 0.0;
  std::size_t window = 0;          ///< 0: all keys up to its own position
  double softcap = 0.0;            ///< 0: none
  std::vector<double> alibi = {};  ///< a slope per head, or empty
  std::vector<double> sinks = {};  ///< a logit per head, or empty
};

/// One sequence. Its last q.rows() positions are asked; query r stands at key k.rows() - q.rows() + r.
template <class T>
struct AttentionSequence {
  MatrixView<const T> q;     ///< (queries, heads * head_dim), after the rotary embedding
  MatrixView<const T> k, v;  ///< (keys, kv_heads * head_dim), keys >= queries
  MatrixView<T> out;         ///< (queries, heads * head_dim)
  MatrixView<T> log_sums;  ///< (heads, queries): ln of each denominator, sink included, for the backward pass; or empty
};
template <class T>
using AttentionSequences = std::span<const AttentionSequence<T>>;

/// out as AttentionShape says, for every head of every sequence, on all threads.
/// Fused: tiles of queries walk over tiles of keys up to the diagonal with a running maximum and sum (Milakov and
/// Gimelshein 2018; Dao et al. 2022); scratch is one tile of scores per thread. Decomposed: the (queries, keys) scores
/// of a head are held at once, per thread. They differ by rounding only. Tiles of keys outside the window are skipped.
template <class T>
void attention_forward(const AttentionShape& shape, AttentionSequences<T> sequences, Attention how);

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
template <class T>
using AttentionGradients = std::span<const AttentionGradient<T>>;

/// Requires keys == queries. Scores are recomputed tile by tile and never held as a whole. Shared out by (sequence,
/// key-value head). With weights P (without the sink's), S = cap(scale q kᵀ) and o = P v:
///   dv = Pᵀ do,  dS = P (do vᵀ - rowsum(do o)) · cap'(…),  dq = scale dS k,  dk = scale dSᵀ q.
template <class T>
void attention_backward(const AttentionShape& shape, AttentionGradients<T> sequences);

}  // namespace nibble::model
