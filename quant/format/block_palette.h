#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/matrix/dtype.h"

namespace nibble::quant {

/// What the sixteen (learned: 2^bits) codes of a block palette mean, before a block's scale.
enum class BlockPalette : std::uint8_t {
  kLearned,  ///< float16 values of the tensor's own
  kNf4,      ///< quantiles of the normal distribution, -1 to 1 (QLoRA, arXiv:2305.14314, appendix E)
  kIq4Nl,    ///< integers from -127 to 113, of ggml's IQ4_NL
  kFp4,      ///< E2M1 (OCP MX 1.0): ± 0, 0.5, 1, 1.5, 2, 3, 4, 6; both zeros have a code
};

/// How the scales of blocks are stored.
enum class ScaleType : std::uint8_t {
  kFloat16,  ///< of either sign
  kE8M0,     ///< powers of two, 2^-127 to 2^127
  kE4M3,     ///< 0 to 448, times one float32 of the tensor
};

constexpr std::array<BlockPalette, 4> kBlockPalettes{BlockPalette::kLearned, BlockPalette::kNf4, BlockPalette::kIq4Nl,
                                                     BlockPalette::kFp4};
constexpr std::array<ScaleType, 3> kScaleTypes{ScaleType::kFloat16, ScaleType::kE8M0, ScaleType::kE4M3};

std::string_view block_palette_name(BlockPalette palette);  ///< "learned", "nf4", "iq4_nl", "fp4": as recipes say
std::string_view scale_type_name(ScaleType type);           ///< "float16", "e8m0", "e4m3"

/// The sixteen values of a fixed palette, ascending; empty for kLearned. Of the two zeros of kFp4 the negative one is
/// entry 7.
std::span<const float> fixed_palette(BlockPalette palette);

/// E2M1's own codes (bit 3 the sign) of the entries of fixed_palette(kFp4).
std::span<const std::uint8_t> e2m1_codes();

DType scale_dtype(ScaleType type);

/// The largest scale there is: 65504, 2^127, 448.
float largest_scale(ScaleType type);

/// The nearest scale that `type` holds (half to even; kE8M0: by the exponent, so that 1.5 goes to 2), at most the
/// largest one and, for kE8M0, at least the least. `scale` is finite; kE8M0 and kE4M3 want it >= 0.
float round_scale(float scale, ScaleType type);

/// The bits of a scale that round_scale() leaves as it is; of kFloat16 as the low 16.
std::uint16_t scale_bits(float scale, ScaleType type);
/// What they mean.
float scale_of_bits(std::uint16_t bits, ScaleType type);

}  // namespace nibble::quant
