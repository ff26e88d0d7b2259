#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/checked_math.h"
#include "model/architecture/architecture.h"
#include "model/transformer/cache/attention_kernels.h"
#include "model/transformer/cache/cache_element.h"

namespace nibble::model {

/// Positions that a state keeps keys for: whole blocks.
inline std::size_t key_positions(std::size_t capacity) {
  return checked_multiply(capacity / attention_kernels::kKeyBlock + (capacity % attention_kernels::kKeyBlock != 0),
                          attention_kernels::kKeyBlock, "key-value cache");
}

/// New positions that gather behind those that a window of `window` needs, before a state slides: a quarter of the
/// window in whole blocks, but one at least and four at most.
inline std::size_t gathered_positions(std::size_t window) {
  constexpr std::size_t kBlock = attention_kernels::kKeyBlock;
  return std::clamp(window / 4 / kBlock * kBlock, kBlock, 4 * kBlock);
}

/// Positions that a state has place for in a layer: all, or those that a window needs, in whole blocks, and those that
/// gather behind them.
inline std::size_t state_positions(std::size_t capacity, std::size_t window) {
  if (window == 0 || window >= capacity) return capacity;
  return std::min(capacity, checked_add(key_positions(window), gathered_positions(window), "key-value cache"));
}

/// Positions before its chunk that a window cache keeps in a layer, of the `past` that it shows to layers without a
/// window: all but the newest of the layer's own window.
inline std::size_t window_past(std::size_t past, std::size_t window) {
  return window == 0 ? past : std::min(past, window - 1);
}

/// (keys + values) · kv_heads · (head_dim · value_bytes + scale_bytes), for `keys` and `values` positions of a layer.
/// Throws FormatError when that overflows.
inline std::uint64_t layer_bytes(const AttentionSpec& attention, std::size_t keys, std::size_t values,
                                 std::size_t value_bytes, std::size_t scale_bytes) {
  const std::uint64_t extents[] = {checked_add(keys, values, "key-value cache"), attention.kv_heads,
                                   attention.head_dim * value_bytes + scale_bytes};
  return checked_element_count(extents, "key-value cache");
}

/// Bytes of all layers of a state of `capacity` positions.
inline std::uint64_t state_bytes(const Architecture& architecture, std::size_t capacity, std::size_t value_bytes,
                                 std::size_t scale_bytes) {
  std::uint64_t sum = 0;
  for (const BlockSpec& block : architecture.blocks) {
    const std::size_t positions = state_positions(capacity, block.attention.window);
    sum = checked_add(sum, layer_bytes(block.attention, key_positions(positions), positions, value_bytes, scale_bytes),
                      "key-value cache");
  }
  return sum;
}

/// The same of a window cache.
inline std::uint64_t window_bytes(const Architecture& architecture, std::size_t chunk, std::size_t context,
                                  std::size_t value_bytes, std::size_t scale_bytes) {
  std::uint64_t sum = 0;
  for (const BlockSpec& block : architecture.blocks) {
    const std::size_t positions = window_past(context - chunk, block.attention.window) + chunk;
    sum = checked_add(sum, layer_bytes(block.attention, positions, positions, value_bytes, scale_bytes),
                      "key-value cache");
  }
  return sum;
}

/// What a row of one head takes as Stored.
template <class T, class Stored>
inline constexpr std::size_t kScaleBytes = CacheElement<T, Stored>::kScaled ? sizeof(float) : 0;

}  // namespace nibble::model
