#pragma once

#include <cstddef>
#include <vector>

#include "core/matrix/gemm.h"
#include "core/matrix/matrix_view.h"

namespace nibble::model {

/// Keys and values of one key-value head at some consecutive positions.
template <class T>
struct KvTile {
  MatrixView<const T> k;                ///< (positions, head_dim), or (head_dim, positions) if k_stored is kYes
  Transpose k_stored = Transpose::kNo;  ///< kYes: k holds the keys as columns
  MatrixView<const T> v;                ///< (positions, head_dim)
};

/// Where attention reads keys and values from, whatever they are kept as.
template <class T>
class KvSource {
 public:
  virtual ~KvSource() = default;
  /// Positions [first, first + count) of `kv_head`. What must be decoded for it lands in `scratch`, which has to live
  /// as long as the tile. Thread-safe.
  virtual KvTile<T> tile(std::size_t kv_head, std::size_t first, std::size_t count, std::vector<T>& scratch) const = 0;
};

/// Keys and values as matrices (positions, kv_heads * head_dim).
template <class T>
class DenseKvSource final : public KvSource<T> {
 public:
  DenseKvSource(MatrixView<const T> k, MatrixView<const T> v, std::size_t head_dim)
      : k_(k), v_(v), head_dim_(head_dim) {}
  KvTile<T> tile(std::size_t kv_head, std::size_t first, std::size_t count, std::vector<T>&) const override {
    const std::size_t column = kv_head * head_dim_;
    return {k_.block(first, column, count, head_dim_), Transpose::kNo, v_.block(first, column, count, head_dim_)};
  }

 private:
  MatrixView<const T> k_, v_;
  std::size_t head_dim_;
};

}  // namespace nibble::model
