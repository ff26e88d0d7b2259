#pragma once

#include <memory>
#include <vector>

#include "core/matrix/linear_op.h"
#include "quant/kernels/bf16/bf16_tiles.h"

namespace nibble::quant {

/// bf16_products.h by a processor's matrix registers, for any number of tokens. The same bits on any number of
/// threads.
/// Cost    decodes W once. Memory per thread: at most 512 rows of W as bits, 16 as floats, or as many as are decoded
///         together (windows: 128), 512 KB of sums; X as bits.
std::unique_ptr<LinearOp<float>> make_bf16_tile_products(const Bf16TileKernels& kernels,
                                                         std::shared_ptr<const WeightSource> source,
                                                         std::vector<float> bias);

}  // namespace nibble::quant
