#pragma once

#include <cstddef>
#include <cstdint>

#include "core/checked_math.h"
#include "model/transformer/cache/attention_kernels.h"
#include "model/transformer/cache/cache_element.h"
#include "model/architecture/architecture.h"

namespace nibble::model {

/// Positions that a state keeps keys for: whole blocks.
inline std::size_t key_positions(std::size_t capacity) {
  return checked_multiply(capacity / attention_kernels::kKeyBlock + (capacity % attention_kernels::kKeyBlock != 0),
                          attention_kernels::kKeyBlock, "key-value cache");
}

/// layers · (keys + values) · kv_heads · (head_dim · value_bytes + scale_bytes), for `keys` and `values` positions.
/// Throws FormatError when that overflows.
inline std::uint64_t stored_bytes(const Architecture& architecture, std::size_t keys, std::size_t values, std::size_t value_bytes,
                                  std::size_t scale_bytes) {
  const AttentionSpec& attention = architecture.blocks.front().attention;
  const std::uint64_t extents[] = {architecture.blocks.size(), checked_add(keys, values, "key-value cache"),
                                   attention.kv_heads, attention.head_dim * value_bytes + scale_bytes};
  return checked_element_count(extents, "key-value cache");
}

template <class T, class Stored>
std::uint64_t stored_bytes(const Architecture& architecture, std::size_t keys, std::size_t values) {
  return stored_bytes(architecture, keys, values, sizeof(Stored), CacheElement<T, Stored>::kScaled ? sizeof(float) : 0);
}

}  // namespace nibble::model
