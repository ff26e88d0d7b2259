#include "quant/algo/palettes/palette_rounding.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::quant {
namespace {

constexpr float kLargestInteger = 127.0f, kLeastUnit = 0x1p-24f;

void round_to_integers(std::span<float> entries, std::size_t group) {
  float largest = 0.0f;
  for (const float entry : entries) largest = std::max(largest, std::abs(entry));
  const float unit = std::max(round_to_f16(largest / kLargestInteger), kLeastUnit);
  NIBBLE_REQUIRE(std::isfinite(unit), NumericalError,
                 "the unit of an int8 palette, {} / 127 of palette {}, is beyond float16 (65504)", largest, group);
  for (float& entry : entries)
    entry = unit * std::clamp(std::nearbyint(entry / unit), -kLargestInteger, kLargestInteger) + 0.0f;  // no -0
}

}  // namespace

void round_palette(std::span<float> entries, DType dtype, std::size_t group) {
  NIBBLE_REQUIRE(dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kI8, InvalidArgument,
                 "palettes are F16, F32 or I8, not {}", dtype_name(dtype));
  for (float& entry : entries) {
    const float rounded = dtype == DType::kF16 ? round_to_f16(entry) : entry;
    NIBBLE_REQUIRE(std::isfinite(rounded), NumericalError, "entry {} of palette {} is beyond {}{}", entry, group,
                   dtype_name(dtype), dtype == DType::kF16 ? " (65504); store F32 palettes or scale the weights" : "");
    entry = rounded;
  }
  if (dtype == DType::kI8) round_to_integers(entries, group);
}

}  // namespace nibble::quant
