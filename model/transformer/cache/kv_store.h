#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/matrix_view.h"
#include "model/transformer/cache/attention_kernels.h"
#include "model/transformer/cache/cache_element.h"

namespace nibble::model {

struct StoreShape {
  std::size_t kv_heads = 0, positions = 0, head_dim = 0;
};

/// The keys or the values of one layer as (kv_heads, positions, head_dim), so that a head's rows follow each other in
/// memory; with a scale per row, (kv_heads, positions), where Stored needs one.
template <class T, class Stored>
class RowStore {
 public:
  using Element = CacheElement<T, Stored>;
  explicit RowStore(const StoreShape& shape)
      : shape_(shape),
        values_(shape.kv_heads * shape.positions * shape.head_dim),
        scales_(Element::kScaled ? shape.kv_heads * shape.positions : 0) {}

  void put(std::size_t kv_head, std::size_t position, const T* row) {
    const std::size_t index = kv_head * shape_.positions + position;
    const float scale = Element::encode(row, shape_.head_dim, values_.data() + index * shape_.head_dim);
    if (Element::kScaled) scales_[index] = scale;
  }
  /// (count, head_dim): in place where nothing needs decoding, otherwise in `scratch` (count * head_dim values).
  MatrixView<const T> rows(std::size_t kv_head, std::size_t first, std::size_t count, T* scratch) const {
    const std::size_t index = kv_head * shape_.positions + first, n = shape_.head_dim;
    const Stored* stored = values_.data() + index * n;
    if constexpr (std::is_same_v<T, Stored>) {
      return {stored, count, n};
    } else {
      Element::widen(stored, count * n, scratch);
      if (Element::kScaled)
        for (std::size_t r = 0; r < count; ++r)
          for (std::size_t i = 0; i < n; ++i) scratch[r * n + i] *= scales_[index + r];
      return {scratch, count, n};
    }
  }
  /// The same rows as they are kept.
  attention_kernels::Rows<Stored> stored(std::size_t kv_head, std::size_t first, std::size_t count) const {
    const std::size_t index = kv_head * shape_.positions + first;
    return {values_.data() + index * shape_.head_dim, Element::kScaled ? scales_.data() + index : nullptr, count,
            shape_.head_dim};
  }
  /// Every position moves down by `count`; the first `count` are lost.
  void slide(std::size_t count) {
    for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
      slide_span(values_, head, shape_.positions * shape_.head_dim, count * shape_.head_dim);
      if (Element::kScaled) slide_span(scales_, head, shape_.positions, count);
    }
  }

 private:
  template <class Value>
  static void slide_span(std::vector<Value>& all, std::size_t head, std::size_t size, std::size_t by) {
    Value* begin = all.data() + head * size;
    std::copy(begin + by, begin + size, begin);
  }

  StoreShape shape_;
  std::vector<Stored> values_;
  std::vector<float> scales_;
};

/// The same as (kv_heads, head_dim, positions): a head's keys as the columns of a matrix.
template <class T, class Stored>
class ColumnStore {
 public:
  using Element = CacheElement<T, Stored>;
  explicit ColumnStore(const StoreShape& shape)
      : shape_(shape),
        values_(shape.kv_heads * shape.positions * shape.head_dim),
        scales_(Element::kScaled ? shape.kv_heads * shape.positions : 0) {}

  void put(std::size_t kv_head, std::size_t position, const T* row) {
    thread_local std::vector<Stored> column;
    column.resize(shape_.head_dim);
    const float scale = Element::encode(row, shape_.head_dim, column.data());
    for (std::size_t i = 0; i < shape_.head_dim; ++i)
      values_[(kv_head * shape_.head_dim + i) * shape_.positions + position] = column[i];
    if (Element::kScaled) scales_[kv_head * shape_.positions + position] = scale;
  }
  /// (head_dim, count), as RowStore::rows().
  MatrixView<const T> columns(std::size_t kv_head, std::size_t first, std::size_t count, T* scratch) const {
    const Stored* stored = values_.data() + kv_head * shape_.head_dim * shape_.positions + first;
    if constexpr (std::is_same_v<T, Stored>) {
      return {stored, shape_.head_dim, count, shape_.positions};
    } else {
      const float* scales = Element::kScaled ? scales_.data() + kv_head * shape_.positions + first : nullptr;
      for (std::size_t i = 0; i < shape_.head_dim; ++i) {
        T* row = scratch + i * count;
        Element::widen(stored + i * shape_.positions, count, row);
        if (Element::kScaled)
          for (std::size_t c = 0; c < count; ++c) row[c] *= scales[c];
      }
      return {scratch, shape_.head_dim, count};
    }
  }
  void slide(std::size_t count) {
    for (std::size_t row = 0; row < shape_.kv_heads * shape_.head_dim; ++row)
      slide_row(values_.data() + row * shape_.positions, count);
    if (Element::kScaled)
      for (std::size_t head = 0; head < shape_.kv_heads; ++head)
        slide_row(scales_.data() + head * shape_.positions, count);
  }

 private:
  template <class Value>
  void slide_row(Value* row, std::size_t by) {
    std::copy(row + by, row + shape_.positions, row);
  }

  StoreShape shape_;
  std::vector<Stored> values_;
  std::vector<float> scales_;
};

}  // namespace nibble::model
