#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/kernels/packing/huge_buffer.h"
#include "quant/kernels/packing/window_layout.h"

namespace nibble::quant {

/// Streams of windows, (cols, column_bytes), as the kernels read them: window_layout.h. The code of weight (i, j) is
/// bits [i · step, i · step + bits) of stream j, little-endian, least significant bit of each byte first. What lies
/// beyond a stream or the last input reads as 0. On all threads.
///
/// Throws InvalidArgument for windows that do not fit (WindowLayout::holds()) and for streams too short for their rows.
HugeBuffer pack_window_streams(const WindowLayout& layout, std::size_t rows, std::size_t cols,
                               std::span<const std::byte> streams, std::size_t column_bytes);

}  // namespace nibble::quant
