#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "model/transformer/layers/attention.h"
#include "model/transformer/layers/attention_tiles.h"
#include "model/transformer/row_ops.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

template <class T>
void scale_row(T* x, std::size_t n, T factor) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

/// The queries of one head, and where their keys and values come from.
template <class T>
struct HeadTask {
  const AttentionShape& shape;
  const KvSource<T>& source;
  std::size_t head, kv_head;
  MatrixView<const T> q;  // (queries, head_dim)
  MatrixView<T> out;
  T* log_sums;       // (queries), or null
  std::size_t past;  // keys before the first query
  T scale;

  /// What a running softmax starts with: nothing, or the sink, which has a weight and no value.
  RealOf<T> first_maximum() const {
    return shape.sinks.empty() ? -std::numeric_limits<RealOf<T>>::infinity()
                               : static_cast<RealOf<T>>(shape.sinks[head]);
  }
  double first_sum() const { return shape.sinks.empty() ? 0.0 : 1.0; }
  void store_log_sum(std::size_t query, WideOf<T> log_sum) const {
    if (log_sums != nullptr) log_sums[query] = static_cast<T>(log_sum);
  }
};

// scores = scale q kᵀ.
template <class T>
void scores_of(T scale, MatrixView<const T> q, const KvTile<T>& tile, MatrixView<T> scores) {
  const Transpose transpose = tile.k_stored == Transpose::kYes ? Transpose::kNo : Transpose::kYes;
  gemm<T>(Transpose::kNo, transpose, scale, q, tile.k, T(0), scores);
}

// Queries [first, first + count). out holds the unnormalised sum over the keys so far, relative to the running maximum
// of each row.
template <class T>
void fused_tile(const HeadTask<T>& task, std::size_t first, std::size_t count) {
  const auto q = task.q.rows_slice(first, count);
  const auto out = task.out.rows_slice(first, count);
  const std::size_t first_position = task.past + first, visible_end = first_position + count;
  thread_local std::vector<T> score_tile(kQueryTile * kKeyTile), decoded;
  const std::size_t first_key = first_visible(task.shape, first_position);
  std::vector<RealOf<T>> maxima(count, task.first_maximum());
  std::vector<WideOf<T>> sums(count, task.first_sum());
  for (std::size_t key = first_key; key < visible_end; key += kKeyTile) {
    const std::size_t keys = std::min(kKeyTile, visible_end - key);
    const MatrixView<T> scores(score_tile.data(), count, keys);
    const KvTile<T> tile = task.source.tile(task.kv_head, key, keys, decoded);
    scores_of<T>(task.scale, q, tile, scores);
    for (std::size_t r = 0; r < count; ++r) {
      T* row = scores.row(r).data();
      const VisibleKeys visible = visible_keys(task.shape, first_position + r, key, keys);
      std::fill(row, row + visible.begin, T(0));
      std::fill(row + visible.end, row + keys, T(0));
      if (visible.count() == 0) continue;
      T* seen = row + visible.begin;
      finish_scores(task.shape, task.head, first_position + r, key + visible.begin, seen, visible.count());
      const RealOf<T> largest = std::max(maxima[r], max_real(seen, visible.count()));
      const RealOf<T> correction = std::exp(maxima[r] - largest);  // 0 at the first tile without a sink
      sums[r] = sums[r] * static_cast<double>(correction) + exp_row<T>(seen, seen, visible.count(), T(largest));
      if (key > first_key && correction != RealOf<T>(1)) scale_row(out.row(r).data(), out.cols(), T(correction));
      maxima[r] = largest;
    }
    gemm<T>(Transpose::kNo, Transpose::kNo, T(1), scores, tile.v, T(key == first_key ? 0 : 1), out);
  }
  for (std::size_t r = 0; r < count; ++r) {
    scale_row(out.row(r).data(), out.cols(), static_cast<T>(1.0 / sums[r]));
    task.store_log_sum(first + r, static_cast<double>(maxima[r]) + std::log(sums[r]));
  }
}

// x = exp(x) / (sum exp(x) + exp(sink)); returns the logarithm of the denominator.
template <class T>
WideOf<T> softmax_with_sink(T* x, std::size_t n, double sink) {
  const RealOf<T> shift = std::max(max_real(x, n), static_cast<RealOf<T>>(sink));
  const WideOf<T> sum = exp_row<T>(x, x, n, T(shift)) + std::exp(sink - static_cast<double>(shift));
  scale_row(x, n, static_cast<T>(1.0 / sum));
  return static_cast<double>(shift) + std::log(sum);
}

template <class T>
void decomposed_head(const HeadTask<T>& task) {
  const AttentionShape& shape = task.shape;
  const std::size_t keys_end = task.past + task.q.rows(), first_key = first_visible(shape, task.past);
  Matrix<T> scores(task.q.rows(), keys_end - first_key);
  thread_local std::vector<T> decoded;
  const auto for_key_tiles = [&](const auto& body) {
    for (std::size_t key = first_key; key < keys_end; key += kKeyTile) {
      const std::size_t keys = std::min(kKeyTile, keys_end - key);
      body(task.source.tile(task.kv_head, key, keys, decoded), scores.view().cols_slice(key - first_key, keys),
           key == first_key);
    }
  };
  for_key_tiles([&](const KvTile<T>& tile, MatrixView<T> part, bool) { scores_of<T>(task.scale, task.q, tile, part); });
  for (std::size_t r = 0; r < scores.rows(); ++r) {
    T* row = scores.row(r).data();
    const VisibleKeys visible = visible_keys(shape, task.past + r, first_key, scores.cols());
    T* seen = row + visible.begin;
    finish_scores(shape, task.head, task.past + r, first_key + visible.begin, seen, visible.count());
    task.store_log_sum(r, shape.sinks.empty() ? softmax_row(seen, visible.count())
                                              : softmax_with_sink(seen, visible.count(), shape.sinks[task.head]));
    std::fill(row, seen, T(0));
    std::fill(row + visible.end, row + scores.cols(), T(0));
  }
  for_key_tiles([&](const KvTile<T>& tile, MatrixView<T> part, bool first) {
    gemm<T>(Transpose::kNo, Transpose::kNo, T(1), part, tile.v, T(first ? 0 : 1), task.out);
  });
}

// Head `head` of queries q, whose last one sees `keys` keys.
template <class T>
HeadTask<T> head_task(const AttentionShape& shape, const KvSource<T>& source, MatrixView<const T> q, std::size_t keys,
                      MatrixView<T> out, MatrixView<T> log_sums, std::size_t head) {
  return {shape,
          source,
          head,
          head / (shape.heads / shape.kv_heads),
          q.cols_slice(head * shape.head_dim, shape.head_dim),
          out.cols_slice(head * shape.head_dim, shape.head_dim),
          log_sums.empty() ? nullptr : log_sums.row(head).data(),
          keys - q.rows(),
          attention_scale<T>(shape)};
}

struct QueryTile {
  std::size_t sequence, first, count;
};

// Those that see the most keys of each sequence first.
void append_query_tiles(std::size_t sequence, std::size_t queries, std::vector<QueryTile>& tiles) {
  for (std::size_t n = (queries + kQueryTile - 1) / kQueryTile; n-- > 0;)
    tiles.push_back({sequence, n * kQueryTile, std::min(kQueryTile, queries - n * kQueryTile)});
}

}  // namespace

template <class T>
void attention_forward(const AttentionShape& shape, AttentionSequences<T> sequences, Attention how) {
  std::vector<DenseKvSource<T>> sources;
  for (const auto& s : sequences) sources.emplace_back(s.k, s.v, shape.head_dim);
  const auto task = [&](std::size_t index, std::size_t head) {
    const AttentionSequence<T>& s = sequences[index];
    return head_task<T>(shape, sources[index], s.q, s.k.rows(), s.out, s.log_sums, head);
  };
  if (how == Attention::kDecomposed) {
    parallel_for(sequences.size() * shape.heads,
                 [&](std::size_t i) { decomposed_head<T>(task(i / shape.heads, i % shape.heads)); });
    return;
  }
  std::vector<QueryTile> tiles;
  for (std::size_t s = 0; s < sequences.size(); ++s) append_query_tiles(s, sequences[s].q.rows(), tiles);
  parallel_for(tiles.size() * shape.heads, [&](std::size_t i) {
    const auto [index, first, count] = tiles[i / shape.heads];
    fused_tile<T>(task(index, i % shape.heads), first, count);
  });
}

template <class T>
void attention_over(const AttentionShape& shape, MatrixView<const T> q, const KvSource<T>& source, std::size_t keys,
                    MatrixView<T> out, Attention how) {
  const auto task = [&](std::size_t head) { return head_task<T>(shape, source, q, keys, out, {}, head); };
  if (how == Attention::kDecomposed) {
    parallel_for(shape.heads, [&](std::size_t head) { decomposed_head<T>(task(head)); });
    return;
  }
  std::vector<QueryTile> tiles;
  append_query_tiles(0, q.rows(), tiles);
  parallel_for(tiles.size() * shape.heads, [&](std::size_t i) {
    const QueryTile& tile = tiles[i / shape.heads];
    fused_tile<T>(task(i % shape.heads), tile.first, tile.count);
  });
}

#define NIBBLE_INSTANTIATE(T)                                                                                  \
  template void attention_forward<T>(const AttentionShape&, AttentionSequences<T>, Attention);                 \
  template void attention_over<T>(const AttentionShape&, MatrixView<const T>, const KvSource<T>&, std::size_t, \
                                  MatrixView<T>, Attention);
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
