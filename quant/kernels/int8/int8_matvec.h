#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/packing/packed_kind.h"

namespace nibble::quant {

/// Some panels of a packed weight (quant/kernels/packing/code_layout.h) and one vector of quantized activations.
struct Int8MatvecArgs {
  const std::uint8_t* codes;  ///< (panels, units, unit_bytes)
  std::size_t panels, units, unit_bytes;
  const std::uint8_t* tables;  ///< (…, 16, or 64 for 6 bits): what codes stand for; panel p as in ExactMatvecArgs
  std::size_t first_panel, panels_per_table;
  const std::uint16_t* block_scales;  ///< (panels, blocks, 16) float16
  const std::uint8_t* block_zeros;    ///< the same shape, or null: `middle`
  std::int32_t middle;                ///< 2^(bits-1) of the format's width; block palettes: 128
  const std::int8_t* x;               ///< (padded inputs), by quantize_activations
  const std::int8_t* x_magnitudes;    ///< |x|; if Int8MatvecKernel::takes_apart
  const std::int8_t* x_negative;      ///< -1 where x < 0, else 0
  const float* x_scales;              ///< (blocks)
  const float* lane_scales;           ///< R = 1: (padded inputs / 4), the scale of each four inputs
  const std::int32_t* x_sums;         ///< (blocks): sums of x
  const std::int32_t* x_less;         ///< (blocks): sums of |x| where x < 0
  float x_total;                      ///< sum over blocks of s_b times the sum of x: what all of x stands for
  float x_less_total;                 ///< the same of x_less
  std::size_t blocks;
  float* y;  ///< R sums per panel
};

/// Palettes  y[p R + r] = sum over blocks b of s_b sum over j in b of table[code_rj] x8_j
/// Blocks    y[p R + r] = sum over blocks b of s_b scale_rb sum over j in b of (code_rj - zero_rb) x8_j
///
/// Block palettes  the same with (table[code_rj] - middle) x8_j; blocks of 16 inputs where the kind says so
///
/// Inner sums are exact integers (at most 32 · 255 · 127), outer ones float32 with FMA.
using Int8Matvec = void (*)(const Int8MatvecArgs&);

/// x8_j = round(x_j / s_b), s_b = max |x| over the 32 inputs of block b, over 127; so |x_j - s_b x8_j| <= s_b / 2.
/// `count` is a multiple of 32. A block that holds a NaN or an infinity gets the scale NaN, so that
/// it reaches every output. The same bits on every processor.
using QuantizeActivations = void (*)(const float* x, std::size_t count, std::int8_t* x8, float* scales,
                                     std::int32_t* sums);

struct Int8MatvecKernel {
  Int8Matvec run = nullptr;
  bool takes_apart = false;  ///< it reads x_magnitudes, x_negative, x_less and x_less_total
};

/// By kept width (1 2 3 4 6 8) and kind; null where there is none: palettes of 8 bits, block palettes
/// of other widths than ExactMatvecTable has.
struct Int8MatvecTable {
  Int8MatvecKernel by_width[6][kPackedKinds];
  QuantizeActivations quantize;
  const char* name;  ///< of the instruction set
};
extern const Int8MatvecTable kInt8MatvecScalar, kInt8MatvecAvx2, kInt8MatvecAvx2Vnni, kInt8MatvecAvx512,
    kInt8MatvecAvx512Vnni, kInt8MatvecAvx512Vbmi, kInt8MatvecNeon, kInt8MatvecNeonDotprod, kInt8MatvecNeonI8mm;

/// The kernels of the tier in force; all tiers have their own.
const Int8MatvecTable& active_int8_matvec();

}  // namespace nibble::quant
