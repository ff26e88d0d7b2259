#pragma once

#include <memory>
#include <vector>

#include "core/matrix/linear_op.h"
#include "quant/format/quantized_tensor.h"
#include "quant/kernels/linear/compute.h"
#include "quant/kernels/packing/packed_weight.h"

namespace nibble::quant {

/// Y = X Wᵀ + b over a quantized weight that is rearranged once, here, on all threads, and multiplied packed: up to
/// kMostExactTokens tokens by matrix-vector kernels of the instruction set in force, more (and backwards) by decoding
/// tiles to float and the GEMM door. `tensor` is not needed afterwards. Formats without a packed layout (can_pack())
/// are refused with InvalidArgument: DecodingLinear serves them.
///
/// `bias` is empty or has one value per row; throws InvalidArgument otherwise.
std::unique_ptr<LinearOp<float>> make_packed_linear(const QuantizedTensor& tensor, std::vector<float> bias,
                                                    Compute compute);

/// The same over a weight that is packed already.
std::unique_ptr<LinearOp<float>> make_packed_linear(PackedWeight weight, std::vector<float> bias, Compute compute);

/// The same over a float weight, read where it lies when `source` has plain rows; stored transposed, it is turned over
/// into memory first.
std::unique_ptr<LinearOp<float>> make_float_linear(std::shared_ptr<const WeightSource> source, std::vector<float> bias,
                                                   Compute compute);

/// `exact` for up to kMostExactTokens tokens and backwards; more tokens by bf16 products of what `source` decodes.
/// `exact` and `source` are of one weight, `bias` as above.
std::unique_ptr<LinearOp<float>> make_bf16_linear(std::unique_ptr<LinearOp<float>> exact,
                                                  std::shared_ptr<const WeightSource> source, std::vector<float> bias);

}  // namespace nibble::quant
