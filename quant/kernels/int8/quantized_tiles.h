#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/kernels/int8/int8_matvec.h"

namespace nibble::quant {

/// How many tokens a tile has, and which of their inputs lie beside each other.
struct Int8TileShape {
  std::size_t tokens;
  bool blocks = false;  ///< a block of every token; else four inputs of every token
};

/// Quantized activations of many tokens as matrix kernels read them, front to back: tiles of a few tokens, inputs in
/// blocks of 32 (or 16).
struct Int8Tiles {
  /// (tiles, blocks, a fourth of its inputs, tokens of a tile, 4) or, by Int8TileShape, (tiles, blocks, tokens, inputs)
  const std::int8_t* values;
  const float* scales;         ///< (tiles, blocks, tokens of a tile)
  const std::int32_t* sums;    ///< the same shape: sums of a block's values
  const std::int32_t* starts;  ///< the same shape: `start` times those
  int start;
  const float* totals;  ///< (tokens): what all values of a token stand for, summed
  std::size_t tokens, tiles, blocks;
};

struct QuantizedTiles {
  std::vector<std::int8_t> values;
  std::vector<float> scales, totals;
  std::vector<std::int32_t> sums, starts;
  int start = 0;
  std::size_t tokens = 0, tiles = 0, blocks = 0;

  Int8Tiles view() const {
    return {values.data(), scales.data(), sums.data(), starts.data(), start, totals.data(), tokens, tiles, blocks};
  }
};

/// Every token of x (tokens, cols) just as `quantize` makes it alone, padded with zeros to `padded` inputs, a multiple
/// of 32, and to whole tiles; blocks are of `block` inputs, 32 or 16. On all threads.
void quantize_tiles(MatrixView<const float> x, std::size_t padded, QuantizeActivations quantize, Int8TileShape shape,
                    int start, std::size_t block, QuantizedTiles& tiles);

}  // namespace nibble::quant
