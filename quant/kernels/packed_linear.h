#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/linear_op.h"
#include "quant/format/quantized_tensor.h"

namespace nibble::quant {

/// The arithmetic of a packed product. Weights are always read packed; what differs is what is multiplied.
///
/// | mode | weights | activations | error of y_r beyond the format's |
/// |---|---|---|---|
/// | exact | just as the format decodes them, float32 | float32 | rounding of float32 sums |
/// | bf16 | rounded to bfloat16 | rounded to bfloat16 | + (2^-7 + 2^-16) sum_j abs(w_rj x_j), of normal numbers |
/// | int8 | palette entries in 8 bits, codes of blocks as they are | 8 bits, a scale per 32 inputs | + sum_j (s/2
/// abs(w_rj) + d/2 abs(x_j)) |
///
/// where s = max abs(x) over the 32 inputs / 127, and d = row scale · (highest - lowest palette entry) / 255, 0 for
/// blocks. bf16 holds for more than kMostExactTokens tokens, of any weight: fewer are bound by memory, and rounding
/// would only cost. int8 holds for packed weights but palettes of 8 bits, for any number of tokens, and with the same
/// integers on every processor; elsewhere products are exact. kernel_name() tells.
enum class Compute { kExact, kBf16, kInt8 };

std::string_view compute_name(Compute compute);                   ///< "exact", "bf16", "int8"
std::optional<Compute> compute_from_name(std::string_view name);  ///< empty for an unknown name

/// Y = X Wᵀ + b over a quantized weight that is rearranged once, here, on all threads, and multiplied packed: up to
/// kMostExactTokens tokens by matrix-vector kernels of the instruction set in force, more (and backwards) by decoding
/// tiles to float and the GEMM door. `tensor` is not needed afterwards. Formats without a packed layout (can_pack())
/// are refused with InvalidArgument: DecodingLinear serves them.
///
/// `bias` is empty or has one value per row; throws InvalidArgument otherwise.
std::unique_ptr<LinearOp<float>> make_packed_linear(const QuantizedTensor& tensor, std::vector<float> bias,
                                                    Compute compute);

/// The same over a float weight, read where it lies when `source` has plain rows; stored transposed, it is turned over
/// into memory first.
std::unique_ptr<LinearOp<float>> make_float_linear(std::shared_ptr<const WeightSource> source, std::vector<float> bias,
                                                   Compute compute);

/// `exact` for up to kMostExactTokens tokens and backwards; more tokens by bf16 products of what `source` decodes.
/// `exact` and `source` are of one weight, `bias` as above.
std::unique_ptr<LinearOp<float>> make_bf16_linear(std::unique_ptr<LinearOp<float>> exact,
                                                  std::shared_ptr<const WeightSource> source, std::vector<float> bias);

}  // namespace nibble::quant
