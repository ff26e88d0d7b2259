#pragma once

#include <span>

#include "core/matrix_view.h"
#include "quant/format/windowed_codes.h"
#include "quant/kernels/packed_weight.h"
#include "quant/kernels/window_kernels.h"

// Y = X Wᵀ + b over a packed weight of windows, and what makes one. Products are on all threads; the same bits whatever
// the number of threads, and for a token whatever others come with it.
namespace nibble::quant {

/// Streams of windows (quant/format/windowed_codes.h), the palette of all of them (2^window_bits) and a scale per row,
/// or none, as the kernels read them. `integer_step`: what one is of a palette of integers from -127 to 127, 0 for
/// others; such entries are themselves in int8 mode, others rounded to 255 steps. Throws InvalidArgument for sizes that
/// are not the layout's and for windows without a packed layout (WindowLayout::holds()).
PackedWeight pack_windows(const WindowedLayout& layout, std::span<const std::byte> streams,
                          std::span<const float> palette, std::vector<float> row_scale, float integer_step = 0.0f);

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
