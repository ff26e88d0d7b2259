#pragma once

#include <span>

#include "core/matrix/matrix_view.h"
#include "quant/kernels/exact/exact_matvec.h"
#include "quant/kernels/int8/activations.h"
#include "quant/kernels/int8/int8_matmul.h"
#include "quant/kernels/packing/packed_weight.h"

// Y = X Wᵀ + b over a packed weight for a few tokens, on all threads: every thread takes runs of panels. The same bits
// whatever the number of threads, and for a token whatever others come with it, where int8_matmul.h says no less.
namespace nibble::quant {

/// X (tokens, cols), Y (tokens, rows), bias (rows) or empty. Reads the codes once per four tokens.
void multiply_exact(const PackedWeight& weight, std::span<const float> bias, MatrixView<const float> x,
                    MatrixView<float> y);

/// One token. Requires a kernel: int8_kernel().run != nullptr.
void multiply_int8(const PackedWeight& weight, const Int8MatvecTable& kernels, std::span<const float> bias,
                   std::span<const float> x, std::span<float> y);
/// Many tokens: X (tokens, cols), Y (tokens, rows). Unpacks the codes once per thousand tokens. Requires
/// int8_kernel().run and kernels of the same instruction set.
void multiply_int8_tokens(const PackedWeight& weight, const Int8MatvecTable& matvec, const Int8MatmulTable& kernels,
                          std::span<const float> bias, MatrixView<const float> x, MatrixView<float> y);
/// `run` is null where int8 mode has none for this weight.
Int8MatvecKernel int8_kernel(const PackedWeight& weight, const Int8MatvecTable& kernels);

/// The panels [begin, end) for a kernel; what is missing is left to the caller: x and y, or y.
ExactMatvecArgs panel_args(const PackedWeight& weight, std::size_t begin, std::size_t end);
Int8MatvecArgs int8_args(const PackedWeight& weight, std::size_t begin, std::size_t end, const QuantizedActivations& x);

/// Adds what is beside the codes, outliers and bias, to y[first, first + rows) of one token.
void add_outliers_and_bias(const PackedWeight& weight, std::span<const float> bias, std::span<const float> x,
                           std::size_t first, std::size_t rows, std::span<float> y);

}  // namespace nibble::quant
