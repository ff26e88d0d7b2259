#pragma once

#include <vector>

#include "model/transformer/cache/kv_store.h"
#include "model/architecture/architecture.h"
#include "model/transformer/kv_cache.h"

namespace nibble::model {

/// Keys and values preallocated for `capacity` positions and updated in place. Stored: T, Float16Bits or std::int8_t.
template <class T, class Stored>
class StateCache : public KvCache<T> {
 public:
  StateCache(const Architecture& architecture, std::size_t capacity);
  std::size_t room() const override { return capacity_ - this->length(); }
  void attend(std::size_t layer, const AttentionShape& shape, MatrixView<const T> q, MatrixView<const T> k,
              MatrixView<const T> v, MatrixView<T> out, Attention how) override;
  std::uint64_t bytes() const override { return bytes_; }
  /// Becomes a copy of `other`, which has the same shape: all of its memory, used or not.
  void copy_from(const StateCache& other);

 private:
  struct Layer {
    ColumnStore<T, Stored> keys;
    RowStore<T, Stored> values;
  };
  std::size_t capacity_;
  std::uint64_t bytes_;
  std::vector<Layer> layers_;
};

}  // namespace nibble::model
