#pragma once

#include <algorithm>
#include <cstdint>

#include "model/transformer/layers/attention.h"
#include "model/transformer/layers/softcap.h"
#include "model/transformer/scalar.h"

// What the forward and the backward pass of attention share.
namespace nibble::model {

// A tile of scores is 64 KB in float: it and its rows of q, k and v stay in the second-level cache.
inline constexpr std::size_t kQueryTile = 128, kKeyTile = 128;

/// The first key that the query at `position` sees.
inline std::size_t first_visible(const AttentionShape& shape, std::size_t position) {
  return shape.window == 0 || position < shape.window ? 0 : position + 1 - shape.window;
}

/// Which of the keys [key, key + keys) a query sees: [begin, end) of them, counted from `key`; begin = end: none.
struct VisibleKeys {
  std::size_t begin, end;
  std::size_t count() const { return end - begin; }
};
inline VisibleKeys visible_keys(const AttentionShape& shape, std::size_t position, std::size_t key, std::size_t keys) {
  const std::size_t end = position < key ? 0 : std::min(keys, position - key + 1);
  const std::size_t first = first_visible(shape, position);
  return {first <= key ? 0 : std::min(end, first - key), end};
}

template <class T>
T attention_scale(const AttentionShape& shape) {
  return static_cast<RealOf<T>>(shape.scale);
}

/// row[i] += slope · (key + i - position) for n keys from `key` on.
template <class T>
void add_alibi(T* row, std::size_t n, double slope, std::size_t position, std::size_t key) {
  const auto factor = static_cast<RealOf<T>>(slope);
  const auto first = static_cast<std::int32_t>(static_cast<std::int64_t>(key) - static_cast<std::int64_t>(position));
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(n); ++i) row[i] += factor * static_cast<RealOf<T>>(first + i);
}

/// Turns products scale · q · k of n visible keys from `key` on into the scores of `head`.
template <class T>
void finish_scores(const AttentionShape& shape, std::size_t head, std::size_t position, std::size_t key, T* row,
                   std::size_t n) {
  if (shape.softcap > 0.0) softcap_row(row, n, shape.softcap);
  if (!shape.alibi.empty()) add_alibi(row, n, shape.alibi[head], position, key);
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
