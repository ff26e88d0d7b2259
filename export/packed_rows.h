#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/matrix/matrix_view.h"
#include "export/integer_grid.h"
#include "export/quantized_directory.h"

namespace nibble::exporting {

/// Words of 32 bits that hold a stream of `count` codes.
constexpr std::size_t stream_words(std::size_t count, unsigned bits) { return (count * bits + 31) / 32; }

/// Gives `sink` rows of `bytes` bytes, one after the other, as `fill` makes them. Many rows at a time, on all threads.
void write_rows(std::size_t rows, std::size_t bytes,
                const std::function<void(std::size_t row, std::span<std::byte> bytes)>& fill, const ByteSink& sink);

/// The same rows of `width` values, written transposed, (width, rows). Memory: all of them. For 16 and 32 bits.
template <class T>
void write_columns(std::size_t rows, std::size_t width,
                   const std::function<void(std::size_t row, std::span<T> values)>& fill, const ByteSink& sink);

/// The code streams of the rows, (rows, words), or transposed.
void write_streams(const IntegerGrid& grid, const ByteSink& sink);
void write_transposed_streams(const IntegerGrid& grid, const ByteSink& sink);

/// The scale of each `group` inputs of every row, F16: (rows, groups), or transposed.
void write_scales(const IntegerGrid& grid, std::size_t group, const ByteSink& sink);
void write_transposed_scales(const IntegerGrid& grid, std::size_t group, const ByteSink& sink);

/// Zero points packed along the rows: (groups, words), where stream g holds those of group g of every row, less `less`.
Matrix<std::uint32_t> zero_streams(const IntegerGrid& grid, std::size_t group, unsigned less);

}  // namespace nibble::exporting
