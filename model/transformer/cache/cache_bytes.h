#pragma once

#include <cstddef>
#include <cstdint>

#include "core/checked_math.h"
#include "model/transformer/cache/cache_element.h"
#include "model/transformer/config.h"

namespace nibble::model {

/// 2 · layers · positions · kv_heads · (head_dim · value_bytes + scale_bytes). Throws FormatError when that overflows.
inline std::uint64_t stored_bytes(const Config& config, std::size_t positions, std::size_t value_bytes,
                                  std::size_t scale_bytes) {
  const std::uint64_t extents[] = {2, config.layers, positions, config.kv_heads,
                                   config.head_dim * value_bytes + scale_bytes};
  return checked_element_count(extents, "key-value cache");
}

template <class T, class Stored>
std::uint64_t stored_bytes(const Config& config, std::size_t positions) {
  return stored_bytes(config, positions, sizeof(Stored), CacheElement<T, Stored>::kScaled ? sizeof(float) : 0);
}

}  // namespace nibble::model
