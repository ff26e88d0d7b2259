#include <algorithm>
#include <array>
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
T dot(const T* a, const T* b, std::size_t n) {
  T sum{};
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// The gradients of one key-value head and of the query heads that read it: the formulas of attention.h.
template <class T>
void backward_kv_head(const AttentionShape& shape, const AttentionGradient<T>& g, std::size_t kv_head) {
  const std::size_t d = shape.head_dim, group = shape.heads / shape.kv_heads, tokens = g.forward.q.rows();
  const auto dk = g.dk.cols_slice(kv_head * d, d), dv = g.dv.cols_slice(kv_head * d, d);
  thread_local std::vector<T> tile_memory(2 * kQueryTile * kKeyTile);
  std::array<T, kKeyTile> slopes;  // cap'(…) of a row
  std::vector<T> row_dots(tokens);
  for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadViews<T> h(shape, g.forward, head);
    const auto dout = g.dout.cols_slice(head * d, d);
    const auto dq = g.dq.cols_slice(head * d, d);
    for (std::size_t r = 0; r < tokens; ++r) row_dots[r] = dot<T>(dout.row(r).data(), h.out.row(r).data(), d);
    for (std::size_t query = 0; query < tokens; query += kQueryTile) {
      const std::size_t queries = std::min(kQueryTile, tokens - query);
      const auto q_tile = h.q.rows_slice(query, queries);
      const auto dout_tile = dout.rows_slice(query, queries);
      const auto dq_tile = dq.rows_slice(query, queries);
      // Key tiles begin at multiples of their size, so that those of several query tiles are the same.
      const std::size_t first_key = first_visible(shape, query) / kKeyTile * kKeyTile;
      for (std::size_t key = first_key; key < query + queries; key += kKeyTile) {
        const std::size_t keys = std::min(kKeyTile, query + queries - key);
        const MatrixView<T> p(tile_memory.data(), queries, keys);
        const MatrixView<T> ds(tile_memory.data() + kQueryTile * kKeyTile, queries, keys);
        const auto k_tile = h.k.rows_slice(key, keys), v_tile = h.v.rows_slice(key, keys);
        gemm<T>(Transpose::kNo, Transpose::kYes, h.scale, q_tile, k_tile, T(0), p);
        gemm<T>(Transpose::kNo, Transpose::kYes, T(1), dout_tile, v_tile, T(0), ds);
        for (std::size_t r = 0; r < queries; ++r) {
          T* p_row = p.row(r).data();
          T* ds_row = ds.row(r).data();
          const VisibleKeys visible = visible_keys(shape, query + r, key, keys);
          const std::size_t begin = visible.begin, count = visible.count();
          std::fill(p_row, p_row + begin, T(0));
          std::fill(ds_row, ds_row + begin, T(0));
          std::fill(p_row + visible.end, p_row + keys, T(0));
          std::fill(ds_row + visible.end, ds_row + keys, T(0));
          p_row += begin, ds_row += begin;
          if (shape.softcap > 0.0) {
            softcap_row(p_row, count, shape.softcap);
            softcap_slope_row(p_row, slopes.data(), count, shape.softcap);
          }
          if (!shape.alibi.empty()) add_alibi(p_row, count, shape.alibi[head], query + r, key + begin);
          exp_row<T>(p_row, p_row, count, g.forward.log_sums(head, query + r));
          const T row_dot = row_dots[query + r];
          for (std::size_t i = 0; i < count; ++i) ds_row[i] = p_row[i] * (ds_row[i] - row_dot);
          if (shape.softcap > 0.0)
            for (std::size_t i = 0; i < count; ++i) ds_row[i] *= slopes[i];
        }
        // The first query tile that reaches a key tile starts its sums: the one on the diagonal, of the first head.
        const bool starts_keys = head == kv_head * group && key + kKeyTile > query;
        const T keep_keys = T(starts_keys ? 0 : 1), keep_queries = T(key == first_key ? 0 : 1);
        gemm<T>(Transpose::kYes, Transpose::kNo, T(1), p, dout_tile, keep_keys, dv.rows_slice(key, keys));
        gemm<T>(Transpose::kYes, Transpose::kNo, h.scale, ds, q_tile, keep_keys, dk.rows_slice(key, keys));
        gemm<T>(Transpose::kNo, Transpose::kNo, h.scale, ds, k_tile, keep_queries, dq_tile);
      }
    }
  }
}

}  // namespace

template <class T>
void attention_backward(const AttentionShape& shape, AttentionGradients<T> sequences) {
  static_assert(kQueryTile == kKeyTile, "a key tile starts at its diagonal query tile");
  parallel_for(sequences.size() * shape.kv_heads,
               [&](std::size_t i) { backward_kv_head<T>(shape, sequences[i / shape.kv_heads], i % shape.kv_heads); });
}

#define NIBBLE_INSTANTIATE(T) template void attention_backward<T>(const AttentionShape&, AttentionGradients<T>);
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
