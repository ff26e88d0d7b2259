#include "quant/format/block_palette.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace nibble::quant {
namespace {

constexpr std::array<std::string_view, 4> kPaletteNames{"learned", "nf4", "iq4_nl", "fp4"};
constexpr std::array<std::string_view, 3> kScaleNames{"float16", "e8m0", "e4m3"};

constexpr std::array<float, 16> kNf4Values{-1.0f,
                                           -0.6961928009986877f,
                                           -0.5250730514526367f,
                                           -0.39491748809814453f,
                                           -0.28444138169288635f,
                                           -0.18477343022823334f,
                                           -0.09105003625154495f,
                                           0.0f,
                                           0.07958029955625534f,
                                           0.16093020141124725f,
                                           0.24611230194568634f,
                                           0.33791524171829224f,
                                           0.44070982933044434f,
                                           0.5626170039176941f,
                                           0.7229568362236023f,
                                           1.0f};
constexpr std::array<float, 16> kIq4NlValues{-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
                                             1.0f,    13.0f,   25.0f,  38.0f,  53.0f,  69.0f,  89.0f,  113.0f};
constexpr std::array<float, 16> kFp4Values{-6.0f, -4.0f, -3.0f, -2.0f, -1.5f, -1.0f, -0.5f, 0.0f,
                                           0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f};
constexpr std::array<std::uint8_t, 16> kFp4Codes{15, 14, 13, 12, 11, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7};

constexpr std::uint16_t kLargestE4M3 = 0x7E, kLargestE8M0 = 0xFE, kLargestF16 = 0x7BFF;

// The E4M3 code nearest to a value >= 0: steps of 2^-9 below 2^-6, of 1/8 of an octave above.
std::uint16_t e4m3_bits(float value) {
  if (!(value < 448.0f)) return kLargestE4M3;
  constexpr float kLeastNormal = 0x1p-6f, kStep = 0x1p-9f;
  if (value < kLeastNormal) return static_cast<std::uint16_t>(std::nearbyint(value / kStep));  // 8 is the least normal
  const int exponent = std::ilogb(value);
  const auto steps = static_cast<int>(std::nearbyint(std::scalbn(value, 3 - exponent)));  // 8 to 16
  return static_cast<std::uint16_t>(std::min((exponent + 7) * 8 + steps - 8, int{kLargestE4M3}));
}

std::uint16_t e8m0_bits(float value) {
  if (!(value > 0.0f)) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // value = fraction 2^exponent, fraction in [0.5, 1)
  const int nearest = fraction >= 0.75f ? exponent : exponent - 1;
  return static_cast<std::uint16_t>(std::clamp(nearest + 127, 0, int{kLargestE8M0}));
}

}  // namespace

std::string_view block_palette_name(BlockPalette palette) { return kPaletteNames[static_cast<std::size_t>(palette)]; }

std::string_view scale_type_name(ScaleType type) { return kScaleNames[static_cast<std::size_t>(type)]; }

std::span<const float> fixed_palette(BlockPalette palette) {
  switch (palette) {
    case BlockPalette::kNf4:
      return kNf4Values;
    case BlockPalette::kIq4Nl:
      return kIq4NlValues;
    case BlockPalette::kFp4:
      return kFp4Values;
    case BlockPalette::kLearned:
      break;
  }
  return {};
}

std::span<const std::uint8_t> e2m1_codes() { return kFp4Codes; }

DType scale_dtype(ScaleType type) {
  return type == ScaleType::kE8M0 ? DType::kF8E8M0 : type == ScaleType::kE4M3 ? DType::kF8E4M3 : DType::kF16;
}

float largest_scale(ScaleType type) {
  return scale_of_bits(type == ScaleType::kE8M0   ? kLargestE8M0
                       : type == ScaleType::kE4M3 ? kLargestE4M3
                                                  : kLargestF16,
                       type);
}

float round_scale(float scale, ScaleType type) { return scale_of_bits(scale_bits(scale, type), type); }

std::uint16_t scale_bits(float scale, ScaleType type) {
  if (type == ScaleType::kE8M0) return e8m0_bits(scale);
  if (type == ScaleType::kE4M3) return e4m3_bits(scale);
  const float most = f16_to_f32(kLargestF16);
  const std::uint16_t bits = f32_to_f16(std::clamp(scale, -most, most));
  return bits == 0x8000 ? std::uint16_t{0} : bits;  // no -0
}

float scale_of_bits(std::uint16_t bits, ScaleType type) {
  if (type == ScaleType::kE8M0) return f8_e8m0_to_f32(static_cast<std::uint8_t>(bits));
  if (type == ScaleType::kE4M3) return f8_e4m3_to_f32(static_cast<std::uint8_t>(bits));
  return f16_to_f32(bits);
}

}  // namespace nibble::quant
