#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/matrix/matrix_view.h"
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

/// The same with positions side by side, in blocks of some: (kv_heads, blocks, head_dim, block), so that a head's keys
/// are the columns of matrices (head_dim, block). There is place for whole blocks of positions.
template <class T, class Stored>
class ColumnStore {
 public:
  using Element = CacheElement<T, Stored>;
  /// Requires block > 0.
  ColumnStore(const StoreShape& shape, std::size_t block)
      : shape_{shape.kv_heads, whole_blocks(shape.positions, block), shape.head_dim},
        block_(block),
        values_(shape_.kv_heads * shape_.positions * shape_.head_dim),
        scales_(Element::kScaled ? shape_.kv_heads * shape_.positions : 0) {}
  static std::size_t whole_blocks(std::size_t positions, std::size_t block) {
    return (positions + block - 1) / block * block;
  }

  void put(std::size_t kv_head, std::size_t position, const T* row) {
    thread_local std::vector<Stored> encoded;
    encoded.resize(shape_.head_dim);
    const float scale = Element::encode(row, shape_.head_dim, encoded.data());
    Stored* column = values_.data() + offset(kv_head, position);
    for (std::size_t i = 0; i < shape_.head_dim; ++i) column[i * block_] = encoded[i];
    if (Element::kScaled) scales_[kv_head * shape_.positions + position] = scale;
  }
  /// (head_dim, count): in place where a block holds them and nothing needs decoding, otherwise in `scratch`
  /// (head_dim * count values).
  MatrixView<const T> columns(std::size_t kv_head, std::size_t first, std::size_t count, T* scratch) const {
    if constexpr (std::is_same_v<T, Stored>)
      if (first % block_ + count <= block_)
        return {values_.data() + offset(kv_head, first), shape_.head_dim, count, block_};
    for (std::size_t at = first; at < first + count;) {
      const std::size_t n = std::min(first + count - at, block_ - at % block_);
      const Stored* stored = values_.data() + offset(kv_head, at);
      for (std::size_t i = 0; i < shape_.head_dim; ++i)
        decode(stored + i * block_, kv_head, at, n, scratch + i * count + (at - first));
      at += n;
    }
    return {scratch, shape_.head_dim, count};
  }
  /// The same blocks as they are kept. Requires blocks of kKeyBlock, and `first` at the start of one.
  attention_kernels::KeyBlocks<Stored> stored(std::size_t kv_head, std::size_t first, std::size_t count) const {
    const float* scales = Element::kScaled ? scales_.data() + kv_head * shape_.positions + first : nullptr;
    return {values_.data() + offset(kv_head, first), scales, count, shape_.head_dim};
  }
  /// Every position moves down by `count`; the first `count` are lost. Requires whole blocks, or a single block.
  void slide(std::size_t count) {
    if (Element::kScaled)
      for (std::size_t head = 0; head < shape_.kv_heads; ++head)
        slide_row(scales_.data() + head * shape_.positions, shape_.positions, count);
    if (count % block_ == 0) {
      const std::size_t size = shape_.positions * shape_.head_dim;
      for (std::size_t head = 0; head < shape_.kv_heads; ++head)
        slide_row(values_.data() + head * size, size, count * shape_.head_dim);
      return;
    }
    for (std::size_t row = 0; row < shape_.kv_heads * shape_.head_dim; ++row)
      slide_row(values_.data() + row * shape_.positions, shape_.positions, count);
  }

 private:
  std::size_t offset(std::size_t kv_head, std::size_t position) const {
    const std::size_t in_block = position % block_;
    return (kv_head * shape_.positions + position - in_block) * shape_.head_dim + in_block;
  }
  void decode(const Stored* stored, std::size_t kv_head, std::size_t position, std::size_t count, T* values) const {
    if constexpr (std::is_same_v<T, Stored>) {
      std::copy_n(stored, count, values);
    } else {
      Element::widen(stored, count, values);
      if (!Element::kScaled) return;
      const float* scales = scales_.data() + kv_head * shape_.positions + position;
      for (std::size_t i = 0; i < count; ++i) values[i] *= scales[i];
    }
  }
  template <class Value>
  static void slide_row(Value* row, std::size_t size, std::size_t by) {
    std::copy(row + by, row + size, row);
  }

  StoreShape shape_;
  std::size_t block_;
  std::vector<Stored> values_;
  std::vector<float> scales_;
};

}  // namespace nibble::model
