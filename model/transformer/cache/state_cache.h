#pragma once

#include <vector>

#include "model/architecture/architecture.h"
#include "model/transformer/cache/kv_store.h"
#include "model/transformer/kv_cache.h"

namespace nibble::model {

/// Keys and values preallocated for `capacity` positions and updated in place. Stored: T, Float16Bits or std::int8_t.
/// A layer with a window has place for state_positions() of them (cache_layout.h): those that the window needs, and
/// some new ones behind; when it is full, positions that no later query sees are dropped, in whole blocks.
template <class T, class Stored>
class StateCache : public KvCache<T> {
 public:
  StateCache(const Architecture& architecture, std::size_t capacity);
  std::size_t room() const override { return capacity_ - this->length(); }
  /// Throws InvalidArgument where positions that the rows see were dropped for others that did not come to count.
  void attend(std::size_t layer, const AttentionShape& shape, MatrixView<const T> q, MatrixView<const T> k,
              MatrixView<const T> v, MatrixView<T> out, Attention how) override;
  void reset() override;
  std::uint64_t bytes() const override { return bytes_; }
  /// Becomes a copy of `other`, which has the same shape: all of its memory, used or not.
  void copy_from(const StateCache& other);

 private:
  struct Layer {
    ColumnStore<T, Stored> keys;
    RowStore<T, Stored> values;
    std::size_t window, positions;  // positions that there is place for
    std::size_t start = 0;          // position that stands first
  };
  /// Makes place in `layer` for some of `rows` new positions from `past` on. Returns how many.
  std::size_t make_place(Layer& layer, std::size_t past, std::size_t rows) const;
  /// attend() for rows that there is place for, from position `past` on.
  static void attend_placed(Layer& layer, const AttentionShape& shape, MatrixView<const T> q, MatrixView<const T> k,
                            MatrixView<const T> v, std::size_t past, MatrixView<T> out, Attention how);

  std::size_t capacity_;
  std::uint64_t bytes_;
  std::vector<Layer> layers_;
};

}  // namespace nibble::model
