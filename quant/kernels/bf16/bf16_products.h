#pragma once

#include <memory>
#include <vector>

#include "core/matrix/linear_op.h"

namespace nibble::quant {

/// Y = X Wᵀ + b of operands rounded to bfloat16, products exact and sums in float32: what Compute::kBf16 promises of
/// many tokens. backward_input() is not there (throws InvalidArgument).
///
/// Where there are matrix registers (AMX), our own products (bf16_tile_products.h); where other units multiply bfloat16
/// numbers faster than floats (has_fast_bf16() of core/machine/isa.h), the matrix library's products of bits; elsewhere
/// its float32 products of rounded floats, which are as exact, since a product of two bfloat16 numbers fits into a
/// float32. They differ in the order of sums, and the first two take subnormal numbers for 0. The same bits on any
/// number of threads.
///
/// Shapes  X (tokens, in), Y (tokens, out); `bias` empty or (out), InvalidArgument otherwise.
///
/// Cost    decodes W once (bits), or once per 256 tokens (floats). Memory per thread: one tile of rows of W, at most 4
///         MB as bits and, stored transposed, 8 MB as floats (floats: 8 MB), or 128 rows where that is more; X rounded.
///         Our own products say theirs.
std::unique_ptr<LinearOp<float>> make_bf16_products(std::shared_ptr<const WeightSource> source,
                                                    std::vector<float> bias);

}  // namespace nibble::quant
