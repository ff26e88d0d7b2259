#include "model/transformer/cache/window_cache.h"

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/transformer/cache/cache_layout.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

// The positions from `first` on.
template <class T, class Stored>
class WindowSource final : public KvSource<T> {
 public:
  WindowSource(const ColumnStore<T, Stored>& keys, const RowStore<T, Stored>& values, std::size_t first,
               std::size_t head_dim)
      : keys_(keys), values_(values), first_(first), head_dim_(head_dim) {}
  KvTile<T> tile(std::size_t kv_head, std::size_t first, std::size_t count, std::vector<T>& scratch) const override {
    if (!std::is_same_v<T, Stored>) scratch.resize(std::max(scratch.size(), 2 * count * head_dim_));
    return {keys_.columns(kv_head, first_ + first, count, scratch.data()), Transpose::kYes,
            values_.rows(kv_head, first_ + first, count, scratch.data() + count * head_dim_)};
  }

 private:
  const ColumnStore<T, Stored>& keys_;
  const RowStore<T, Stored>& values_;
  std::size_t first_, head_dim_;
};

}  // namespace

template <class T, class Stored>
WindowCache<T, Stored>::WindowCache(const Architecture& architecture, std::size_t chunk, std::size_t context)
    : chunk_(chunk), context_(context) {
  NIBBLE_REQUIRE(chunk > 0 && chunk < context, InvalidArgument,
                 "window cache: expected a chunk of at least 1 and less than the context, got {} of {}", chunk,
                 context);
  bytes_ = window_bytes(architecture, chunk, context, sizeof(Stored), kScaleBytes<T, Stored>);
  layers_.reserve(architecture.blocks.size());
  for (const BlockSpec& block : architecture.blocks) {
    const std::size_t past = window_past(context - chunk, block.attention.window), positions = past + chunk;
    const StoreShape shape{block.attention.kv_heads, positions, block.attention.head_dim};
    layers_.push_back({ColumnStore<T, Stored>(shape, positions), RowStore<T, Stored>(shape), past});
  }
}

template <class T, class Stored>
void WindowCache<T, Stored>::attend(std::size_t index, const AttentionShape& shape, MatrixView<const T> q,
                                    MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> out, Attention how) {
  Layer& layer = layers_.at(index);
  const std::size_t past = layer.past, held = std::min(held_, past);
  parallel_for(shape.kv_heads, [&](std::size_t head) {
    for (std::size_t r = 0; r < q.rows(); ++r) {
      layer.keys.put(head, past + r, k.row(r).data() + head * shape.head_dim);
      layer.values.put(head, past + r, v.row(r).data() + head * shape.head_dim);
    }
  });
  const WindowSource<T, Stored> source(layer.keys, layer.values, past - held, shape.head_dim);
  attention_over<T>(shape, q, source, held + q.rows(), out, how);
}

template <class T, class Stored>
void WindowCache<T, Stored>::advance(std::size_t count) {
  NIBBLE_REQUIRE(count == chunk_, InvalidArgument, "window cache: slides by {} positions, not by {}", chunk_, count);
  KvCache<T>::advance(count);
  held_ = std::min(held_ + chunk_, context_ - chunk_);
  parallel_for(layers_.size(), [&](std::size_t i) {
    layers_[i].keys.slide(chunk_);
    layers_[i].values.slide(chunk_);
  });
}

template <class T, class Stored>
void WindowCache<T, Stored>::reset() {
  KvCache<T>::reset();
  held_ = 0;
}

#define NIBBLE_INSTANTIATE(T, Stored) template class WindowCache<T, Stored>;
NIBBLE_CACHED_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
