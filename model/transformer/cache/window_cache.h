#pragma once

#include <vector>

#include "model/architecture/architecture.h"
#include "model/transformer/cache/kv_store.h"
#include "model/transformer/kv_cache.h"

namespace nibble::model {

/// Static shapes: room for `chunk` new rows behind the context - chunk newest positions before them, which slide by
/// `chunk` when a chunk is complete. Keys are kept transposed, the context in the columns; every layer has its own
/// memory. length() keeps growing, and with it the positions of rotary embeddings. A layer with a window of its own
/// keeps no more positions before the chunk than that shows to the chunk's first row.
template <class T, class Stored>
class WindowCache : public KvCache<T> {
 public:
  /// Requires 0 < chunk < context.
  WindowCache(const Architecture& architecture, std::size_t chunk, std::size_t context);
  std::size_t room() const override { return chunk_; }
  void attend(std::size_t layer, const AttentionShape& shape, MatrixView<const T> q, MatrixView<const T> k,
              MatrixView<const T> v, MatrixView<T> out, Attention how) override;
  /// A whole chunk slides in. Throws InvalidArgument for any other count.
  void advance(std::size_t count) override;
  void reset() override;
  std::uint64_t bytes() const override { return bytes_; }

 private:
  struct Layer {
    ColumnStore<T, Stored> keys;
    RowStore<T, Stored> values;
    std::size_t past;  // positions before the chunk that there is place for
  };
  std::size_t chunk_, context_;
  std::size_t held_ = 0;  // positions before the chunk that hold a token: the last ones before it
  std::uint64_t bytes_;
  std::vector<Layer> layers_;
};

}  // namespace nibble::model
