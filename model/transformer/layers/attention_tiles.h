#pragma once

#include <algorithm>
#include <cmath>

#include "model/transformer/layers/attention.h"
#include "model/transformer/scalar.h"

// What the forward and the backward pass of attention share.
namespace nibble::model {

// A tile of scores is 64 KB in float: it and its rows of q, k and v stay in the second-level cache.
inline constexpr std::size_t kQueryTile = 128, kKeyTile = 128;

/// How many of the keys [key, key + keys) the query at `position` sees: those up to its own position.
inline std::size_t visible_keys(std::size_t position, std::size_t key, std::size_t keys) {
  return position < key ? 0 : std::min(keys, position - key + 1);
}

/// What scores are multiplied by: 1 / sqrt(head_dim).
template <class T>
T attention_scale(const AttentionShape& shape) {
  return static_cast<RealOf<T>>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
}

/// One query head of a sequence with the key-value head that it reads.
template <class T>
struct HeadViews {
  MatrixView<const T> q, k, v;
  MatrixView<T> out;
  T scale;

  HeadViews(const AttentionShape& shape, const AttentionSequence<T>& s, std::size_t head)
      : q(s.q.cols_slice(head * shape.head_dim, shape.head_dim)),
        k(s.k.cols_slice(kv_column(shape, head), shape.head_dim)),
        v(s.v.cols_slice(kv_column(shape, head), shape.head_dim)),
        out(s.out.cols_slice(head * shape.head_dim, shape.head_dim)),
        scale(attention_scale<T>(shape)) {}

  static std::size_t kv_column(const AttentionShape& shape, std::size_t head) {
    return head / (shape.heads / shape.kv_heads) * shape.head_dim;
  }
};

}  // namespace nibble::model
