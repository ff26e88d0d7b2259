#pragma once

#include <array>

#include "core/text/choice.h"
#include "model/transformer/cache/cache_options.h"

namespace nibble::model {

/// What users call the kinds and types of caches.
inline constexpr std::array<Choice<CacheKind>, 4> kCacheKinds = {
    {{"none", CacheKind::kNone}, {"io", CacheKind::kIo}, {"state", CacheKind::kState}, {"window", CacheKind::kWindow}}};
inline constexpr std::array<Choice<CacheType>, 3> kCacheTypes = {
    {{"f32", CacheType::kF32}, {"f16", CacheType::kF16}, {"int8", CacheType::kInt8}}};

}  // namespace nibble::model
