#pragma once

#include <cstddef>
#include <cstring>

namespace nibble::model::decode {

/// The block at `source` in memory of its own (no alignment, and nothing that the values written might alias); `source`
/// then points behind it.
template <class Block>
Block load(const std::byte*& source) {
  Block block;
  std::memcpy(&block, source, sizeof block);
  source += sizeof block;
  return block;
}

}  // namespace nibble::model::decode
