#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::quant {

/// Sides of what a processor with matrix registers multiplies at a time: 16 tokens by 32 inputs, those by 16 rows of a
/// weight, bfloat16 numbers as bits; 16 by 16 float32 sums.
constexpr std::size_t kBf16Tile = 16, kBf16TileInputs = 32;
constexpr std::size_t kBf16TileBits = kBf16Tile * kBf16TileInputs, kBf16TileSums = kBf16Tile * kBf16Tile;

/// `steps` of 32 inputs of some tokens and rows, which come in pairs of tiles.
struct Bf16TileArgs {
  const std::uint16_t* x;  ///< (token_tiles, steps, 16 tokens, 32)
  const std::uint16_t* w;  ///< (row_tiles, steps, 16 pairs of inputs, 16 rows, 2)
  float* sums;             ///< (row_tiles, token_tiles, 16 tokens, 16 rows)
  std::size_t token_tiles, row_tiles, steps;
  bool first;  ///< sums are not read
};

struct Bf16TileKernels {
  /// sums += x wᵀ, or = where they are the first. Products are exact; sums are rounded, and subnormal numbers taken for
  /// 0, as the processor does.
  void (*multiply)(const Bf16TileArgs& args);
  /// 32 steps inputs of a token, rounded to bfloat16, each 32 of them to their place: (steps, 16 tokens, 32).
  void (*arrange_token)(const float* x, std::size_t steps, std::uint16_t* destination);
  /// W of 16 rows and 32 steps inputs, rounded to bfloat16, as (steps, 16 pairs, 16 rows, 2). Either rows `stride`
  /// numbers apart, or columns: (32 steps, 16).
  void (*arrange_rows)(const float* rows, std::size_t stride, std::size_t steps, std::uint16_t* destination);
  void (*arrange_columns)(const float* columns, std::size_t steps, std::uint16_t* destination);
  const char* name;  ///< of the instruction set
};
extern const Bf16TileKernels kBf16TilesAmx;

/// Null where the tier in force has no matrix registers.
const Bf16TileKernels* active_bf16_tiles();

}  // namespace nibble::quant
