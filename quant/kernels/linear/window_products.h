#pragma once

#include <span>

#include "core/matrix/matrix_view.h"
#include "quant/kernels/packing/packed_weight.h"
#include "quant/kernels/windows/window_kernels.h"

// Y = X Wᵀ + b over a packed weight of windows, on all threads: the same bits whatever their number, and for a token
// whatever others come with it.
namespace nibble::quant {

/// X (tokens, cols), Y (tokens, rows), bias (rows) or empty. Decodes the codes once for all tokens.
void multiply_windows(const PackedWeight& weight, std::span<const float> bias, MatrixView<const float> x,
                      MatrixView<float> y);

/// One token in int8 mode. Requires windows of up to 8 bits.
void multiply_windows_int8(const PackedWeight& weight, std::span<const float> bias, std::span<const float> x,
                           std::span<float> y);

/// Many tokens: X (tokens, cols), Y (tokens, rows). Unpacks the codes once per thousand tokens.
void multiply_windows_int8_tokens(const PackedWeight& weight, std::span<const float> bias, MatrixView<const float> x,
                                  MatrixView<float> y);

/// What kernels read of a weight's tables.
WindowTables window_tables(const PackedWeight& weight);

/// w[r - begin, j] (rows apart by `row_stride`, inputs by `input_stride`) of rows [begin, end), just the values of the
/// format.
void decode_windows(const PackedWeight& weight, std::size_t begin, std::size_t end, float* w, std::size_t row_stride,
                    std::size_t input_stride);

}  // namespace nibble::quant
