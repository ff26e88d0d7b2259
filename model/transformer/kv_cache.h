#pragma once

#include <cstddef>
#include <vector>

#include "core/matrix_view.h"
#include "model/transformer/config.h"

namespace nibble::model {

/// Keys and values of one sequence, preallocated for `capacity` positions and updated in place.
/// Memory: 2 · layers · capacity · kv_width · sizeof(T) bytes, allocated at once.
template <class T>
class KvCache {
 public:
  KvCache(const Config& config, std::size_t capacity);
  std::size_t capacity() const { return capacity_; }
  std::size_t length() const { return length_; }  ///< positions that hold a token
  void reset() { length_ = 0; }
  std::size_t bytes() const;
  /// (capacity, kv_width) of one layer; keys are stored after the rotary embedding.
  MatrixView<T> keys(std::size_t layer);
  MatrixView<T> values(std::size_t layer);
  /// Called once per extend(), after all layers. Requires length() + count <= capacity().
  void advance(std::size_t count) { length_ += count; }

 private:
  std::size_t capacity_ = 0, length_ = 0, width_ = 0;
  std::vector<Matrix<T>> keys_, values_;
};

}  // namespace nibble::model
