#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/exact_matvec.h"

// Many vectors of activations at once: panels of codes are taken apart into bytes, once for all tokens, and multiplied
// tile by tile. Integers are those of int8_matvec.h.
namespace nibble::quant {

constexpr std::size_t kMostTileTokens = 16;  ///< of any instruction set

/// `units` units of codes to bytes: what a code stands for (palettes) or the code (blocks), less Int8Width::less.
/// R = 16: (inputs / 4, 16 rows, 4); R = 1: (inputs). `table` as Int8MatvecArgs::tables; null for blocks.
using DecodeToBytes = void (*)(const std::uint8_t* codes, std::size_t units, const std::uint8_t* table,
                               std::uint8_t* bytes);

/// A panel of 16 rows in bytes and a tile of tokens, both cut into blocks of 32 inputs.
struct Int8MatmulArgs {
  const std::uint8_t* weights;  ///< (blocks, 8, 16, 4)
  const float* scales;          ///< (blocks, 16), or null: 1
  const std::uint32_t* zeros;   ///< (blocks, 16): the low 16 bits of -zero; or null: 0
  std::size_t blocks;
  const std::int8_t* x;        ///< (blocks, tokens, 32)
  const float* x_scales;       ///< (blocks, tokens)
  const std::int32_t* x_sums;  ///< (blocks, tokens): sums of x
  const std::int32_t* starts;  ///< (blocks, tokens): what integer sums start from
  float* y;                    ///< (tokens, 16)
};

/// y[t, r] = sum over blocks b of x_scale_tb scale_rb (start_tb + sum over j in b of w_rj x_tj - zero_rb x_sum_tb)
///
/// Inner sums are exact integers, outer ones float32 with FMA, in the order of the blocks.
using Int8Matmul = void (*)(const Int8MatmulArgs&);

struct Int8Width {
  DecodeToBytes decode = nullptr;  ///< null where there is none: palettes of 8 bits
  Int8Matmul multiply = nullptr;
  std::int32_t less = 0;  ///< subtracted from every weight, to fit the multiplier: starts make up for it
};

/// Kernels of one instruction set by kept width (1 2 3 4 6 8), of palettes and of blocks.
struct Int8MatmulTable {
  Int8Width by_width[6][2];
  std::size_t tile_tokens;
};
extern const Int8MatmulTable kInt8MatmulScalar, kInt8MatmulAvx2, kInt8MatmulAvx512Vnni;

/// The kernels of the instruction set in force, chosen as active_int8_matvec() does.
const Int8MatmulTable& active_int8_matmul();

}  // namespace nibble::quant
