#include "quant/algo/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nibble::quant {

std::optional<std::size_t> first_not_finite(std::span<const float> values) {
  constexpr std::size_t kChunk = 4096;
  for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
    const auto chunk = values.subspan(begin, std::min(kChunk, values.size() - begin));
    std::int32_t largest = 0;  // magnitudes order like integers; a loop without exits, which compilers vectorise
    for (const float value : chunk) largest = std::max(largest, std::bit_cast<std::int32_t>(value) & 0x7FFFFFFF);
    if (largest < 0x7F800000) continue;
    const auto bad = std::find_if(chunk.begin(), chunk.end(), [](float value) { return !std::isfinite(value); });
    return begin + static_cast<std::size_t>(bad - chunk.begin());
  }
  return std::nullopt;
}

}  // namespace nibble::quant
