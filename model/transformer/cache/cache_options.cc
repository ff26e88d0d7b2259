#include "model/transformer/cache/cache_options.h"

#include "core/checked_math.h"
#include "core/error.h"
#include "model/transformer/cache/cache_layout.h"

namespace nibble::model {

std::size_t cache_capacity(const Architecture& architecture, const CacheOptions& options) {
  return options.capacity == 0 ? architecture.max_positions : options.capacity;
}

std::uint64_t cache_bytes(const Architecture& architecture, const CacheOptions& options) {
  const std::size_t capacity = cache_capacity(architecture, options);
  if (options.kind == CacheKind::kWindow) {
    NIBBLE_REQUIRE(options.chunk > 0 && options.chunk < options.context, InvalidArgument,
                   "window cache: expected a chunk of at least 1 and less than the context, got {} of {}",
                   options.chunk, options.context);
  } else {
    NIBBLE_REQUIRE(capacity <= architecture.position_limit(), InvalidArgument,
                   "key-value cache: {} positions, but the model has learned {}", capacity, architecture.max_positions);
  }
  if (options.kind == CacheKind::kNone) {
    NIBBLE_REQUIRE(options.type == CacheType::kF32, InvalidArgument,
                   "key-value cache: 'none' keeps nothing, so it has no type; leave the type out");
    return 0;
  }
  const std::size_t value = options.type == CacheType::kF32 ? 4 : options.type == CacheType::kF16 ? 2 : 1;
  const std::size_t scale = options.type == CacheType::kInt8 ? sizeof(float) : 0;
  const std::uint64_t once = options.kind == CacheKind::kWindow
                                 ? window_bytes(architecture, options.chunk, options.context, value, scale)
                                 : state_bytes(architecture, capacity, value, scale);
  return options.kind == CacheKind::kIo ? checked_multiply(once, 2, "key-value cache") : once;
}

}  // namespace nibble::model
