#pragma once

#include <cstddef>
#include <cstdint>

#include "model/architecture/architecture.h"

namespace nibble::model {

/// What a sequence keeps between calls (docs/protocols.md).
enum class CacheKind {
  kNone,    ///< nothing: the whole padded context is recomputed at every call
  kIo,      ///< keys and values are an input and an output of the call: copied whole every time
  kState,   ///< preallocated, updated in place
  kWindow,  ///< static shapes over a context that slides by whole chunks; keys are kept transposed
};

/// What keys and values are kept as.
enum class CacheType {
  kF32,   ///< exactly
  kF16,   ///< rounded to nearest even
  kInt8,  ///< per position and head: round(x / scale), to nearest even, with an f32 scale = max |x| / 127
};

struct CacheOptions {
  CacheKind kind = CacheKind::kState;
  CacheType type = CacheType::kF32;
  std::size_t capacity = 0;   ///< positions of none, io and state; 0: the model's max_positions
  std::size_t chunk = 64;     ///< window: rows of every call, and how far it slides
  std::size_t context = 512;  ///< window: positions that a call sees, its own chunk included
};

/// Positions of none, io and state.
std::size_t cache_capacity(const Architecture& architecture, const CacheOptions& options);

/// Bytes that keys, values and scales of one sequence take: the sum over the layers of
///   (key positions + value positions) · kv_heads · (head_dim · b + s)
/// with b = 4, 2 or 1 bytes per value and s = 4 bytes per scale of int8, otherwise 0, and of positions
///   none    0
///   state   value positions: the capacity; in a layer with a window w, if that is less, w rounded up to a multiple of
///           32, and w / 4 rounded down to one, but 32 at least and 128 at most. Key positions: the same rounded up to
///           a multiple of 32
///   io      twice that, an input and an output
///   window  both: the context; in a layer with a window w, if that is less, chunk + w - 1.
/// Throws InvalidArgument: sizes that overflow, a window with chunk = 0 or chunk >= context, none in a type other than
/// f32, a capacity beyond learned positions.
std::uint64_t cache_bytes(const Architecture& architecture, const CacheOptions& options);

}  // namespace nibble::model
