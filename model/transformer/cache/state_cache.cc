#include "model/transformer/cache/state_cache.h"

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/transformer/cache/cache_layout.h"
#include "model/transformer/cache/decode_attention.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

template <class T, class Stored>
class StateSource final : public KvSource<T> {
 public:
  StateSource(const ColumnStore<T, Stored>& keys, const RowStore<T, Stored>& values, std::size_t head_dim)
      : keys_(keys), values_(values), head_dim_(head_dim) {}
  KvTile<T> tile(std::size_t kv_head, std::size_t first, std::size_t count, std::vector<T>& scratch) const override {
    scratch.resize(std::max(scratch.size(), 2 * count * head_dim_));
    return {keys_.columns(kv_head, first, count, scratch.data()), Transpose::kYes,
            values_.rows(kv_head, first, count, scratch.data() + count * head_dim_)};
  }

 private:
  const ColumnStore<T, Stored>& keys_;
  const RowStore<T, Stored>& values_;
  std::size_t head_dim_;
};

}  // namespace

template <class T, class Stored>
StateCache<T, Stored>::StateCache(const Architecture& architecture, std::size_t capacity)
    : capacity_(capacity), bytes_(state_bytes(architecture, capacity, sizeof(Stored), kScaleBytes<T, Stored>)) {
  layers_.reserve(architecture.blocks.size());
  for (const BlockSpec& block : architecture.blocks) {
    const AttentionSpec& attention = block.attention;
    const std::size_t positions = state_positions(capacity, attention.window);
    const StoreShape shape{attention.kv_heads, positions, attention.head_dim};
    layers_.push_back({ColumnStore<T, Stored>(shape, attention_kernels::kKeyBlock), RowStore<T, Stored>(shape),
                       attention.window, positions});
  }
}

template <class T, class Stored>
void StateCache<T, Stored>::reset() {
  KvCache<T>::reset();
  for (Layer& layer : layers_) layer.start = 0;
}

template <class T, class Stored>
std::size_t StateCache<T, Stored>::make_place(Layer& layer, std::size_t past, std::size_t rows) const {
  if (layer.positions == capacity_) return rows;
  const std::size_t first_seen = past < layer.window ? 0 : past + 1 - layer.window;
  NIBBLE_REQUIRE(layer.start <= first_seen, InvalidArgument,
                 "key-value cache: position {} sees those from {} on, but a window dropped those before {}; a call of "
                 "many tokens that was not completed cannot be taken back: reset() the sequence",
                 past, first_seen, layer.start);
  if (layer.positions - (past - layer.start) < std::min(rows, gathered_positions(layer.window))) {
    constexpr std::size_t kBlock = attention_kernels::kKeyBlock;
    const std::size_t dropped = (first_seen - layer.start) / kBlock * kBlock;
    layer.keys.slide(dropped);
    layer.values.slide(dropped);
    layer.start += dropped;
  }
  return std::min(rows, layer.positions - (past - layer.start));
}

template <class T, class Stored>
void StateCache<T, Stored>::attend_placed(Layer& layer, const AttentionShape& shape, MatrixView<const T> q,
                                          MatrixView<const T> k, MatrixView<const T> v, std::size_t past,
                                          MatrixView<T> out, Attention how) {
  past -= layer.start;
  if constexpr (std::is_same_v<T, float>) {
    if (how == Attention::kFused && q.rows() <= kDecodeQueries)
      return decode_attention<Stored>(shape, q, k, v, layer.keys, layer.values, past, out);
  }
  parallel_for_tiles(q.rows(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      for (std::size_t head = 0; head < shape.kv_heads; ++head) {
        layer.keys.put(head, past + r, k.row(r).data() + head * shape.head_dim);
        layer.values.put(head, past + r, v.row(r).data() + head * shape.head_dim);
      }
    }
  });
  attention_over<T>(shape, q, StateSource<T, Stored>(layer.keys, layer.values, shape.head_dim), past + q.rows(), out,
                    how);
}

template <class T, class Stored>
void StateCache<T, Stored>::attend(std::size_t index, const AttentionShape& shape, MatrixView<const T> q,
                                   MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> out, Attention how) {
  Layer& layer = layers_.at(index);
  // More rows than a window has place for go in one part after the other, so that each sees what it must.
  for (std::size_t done = 0; done < q.rows();) {
    const std::size_t past = this->length() + done, count = make_place(layer, past, q.rows() - done);
    attend_placed(layer, shape, q.rows_slice(done, count), k.rows_slice(done, count), v.rows_slice(done, count), past,
                  out.rows_slice(done, count), how);
    done += count;
  }
}

template <class T, class Stored>
void StateCache<T, Stored>::copy_from(const StateCache& other) {
  static_cast<KvCache<T>&>(*this) = other;
  parallel_for(layers_.size(), [&](std::size_t i) { layers_[i] = other.layers_[i]; });
}

#define NIBBLE_INSTANTIATE(T, Stored) template class StateCache<T, Stored>;
NIBBLE_CACHED_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
