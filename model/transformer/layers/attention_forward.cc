#include <algorithm>
#include <complex>
#include <vector>

#include "core/gemm.h"
#include "core/thread_pool.h"
#include "model/transformer/layers/attention.h"
#include "model/transformer/layers/attention_tiles.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {
namespace {

template <class T>
void scale_row(T* x, std::size_t n, T factor) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
void store_log_sum(const AttentionSequence<T>& s, std::size_t head, std::size_t query, WideOf<T> log_sum) {
  if (!s.log_sums.empty()) s.log_sums(head, query) = static_cast<T>(log_sum);
}

// Queries [first, first + count) of one head. out holds the unnormalised sum over the keys so far, relative to the
// running maximum of each row.
template <class T>
void fused_tile(const AttentionShape& shape, const AttentionSequence<T>& s, std::size_t head, std::size_t first,
                std::size_t count) {
  const HeadViews<T> h(shape, s, head);
  const auto q = h.q.rows_slice(first, count);
  const auto out = h.out.rows_slice(first, count);
  const std::size_t first_position = h.past + first, visible_end = first_position + count;
  thread_local std::vector<T> score_tile(kQueryTile * kKeyTile);
  std::vector<RealOf<T>> maxima(count, -std::numeric_limits<RealOf<T>>::infinity());
  std::vector<WideOf<T>> sums(count);
  for (std::size_t key = 0; key < visible_end; key += kKeyTile) {
    const std::size_t keys = std::min(kKeyTile, visible_end - key);
    const MatrixView<T> scores(score_tile.data(), count, keys);
    gemm<T>(Transpose::kNo, Transpose::kYes, h.scale, q, h.k.rows_slice(key, keys), T(0), scores);
    for (std::size_t r = 0; r < count; ++r) {
      T* row = scores.row(r).data();
      const std::size_t visible = visible_keys(first_position + r, key, keys);
      std::fill(row + visible, row + keys, T(0));
      if (visible == 0) continue;
      const RealOf<T> largest = std::max(maxima[r], max_real(row, visible));
      const RealOf<T> correction = std::exp(maxima[r] - largest);  // 0 at the first tile
      sums[r] = sums[r] * static_cast<double>(correction) + exp_row<T>(row, row, visible, T(largest));
      if (key > 0 && correction != RealOf<T>(1)) scale_row(out.row(r).data(), shape.head_dim, T(correction));
      maxima[r] = largest;
    }
    gemm<T>(Transpose::kNo, Transpose::kNo, T(1), scores, h.v.rows_slice(key, keys), T(key == 0 ? 0 : 1), out);
  }
  for (std::size_t r = 0; r < count; ++r) {
    scale_row(out.row(r).data(), shape.head_dim, static_cast<T>(1.0 / sums[r]));
    store_log_sum(s, head, first + r, static_cast<double>(maxima[r]) + std::log(sums[r]));
  }
}

template <class T>
void decomposed_head(const AttentionShape& shape, const AttentionSequence<T>& s, std::size_t head) {
  const HeadViews<T> h(shape, s, head);
  Matrix<T> scores(h.q.rows(), h.k.rows());
  gemm<T>(Transpose::kNo, Transpose::kYes, h.scale, h.q, h.k, T(0), scores);
  for (std::size_t r = 0; r < scores.rows(); ++r) {
    const auto row = scores.row(r);
    const std::size_t visible = h.past + r + 1;
    store_log_sum(s, head, r, softmax_row(row.data(), visible));
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(visible), row.end(), T(0));
  }
  gemm<T>(Transpose::kNo, Transpose::kNo, T(1), scores, h.v, T(0), h.out);
}

}  // namespace

template <class T>
void attention_forward(const AttentionShape& shape, std::span<const AttentionSequence<T>> sequences, Attention how) {
  if (how == Attention::kDecomposed) {
    parallel_for(sequences.size() * shape.heads,
                 [&](std::size_t i) { decomposed_head<T>(shape, sequences[i / shape.heads], i % shape.heads); });
    return;
  }
  struct Tile {
    std::size_t sequence, first;
  };
  std::vector<Tile> tiles;  // the long ones of each sequence first
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const std::size_t queries = sequences[s].q.rows();
    for (std::size_t n = (queries + kQueryTile - 1) / kQueryTile; n-- > 0;) tiles.push_back({s, n * kQueryTile});
  }
  parallel_for(tiles.size() * shape.heads, [&](std::size_t i) {
    const auto [index, first] = tiles[i / shape.heads];
    const std::size_t count = std::min(kQueryTile, sequences[index].q.rows() - first);
    fused_tile<T>(shape, sequences[index], i % shape.heads, first, count);
  });
}

#define NIBBLE_INSTANTIATE(T) \
  template void attention_forward<T>(const AttentionShape&, std::span<const AttentionSequence<T>>, Attention);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(double)
NIBBLE_INSTANTIATE(std::complex<double>)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
