#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/matrix/matrix_view.h"

namespace nibble::quant {

/// What windows may be: `bits` bits on from one to the next, and `window_bits` wide.
constexpr unsigned kLeastWindowBits = 4, kMostWindowBits = 10, kMostWindowStep = 4;

/// Codes that overlap: input j of a weight (rows, cols) = (out, in) has a bit stream of its own that runs down its
/// outputs, and the code of weight (i, j), an index into a palette of 2^window_bits entries, is a window into it:
///
///   code(i, j) = bits [i·bits, i·bits + window_bits) of stream j, the first of them the lowest of the code       (1)
///
/// so the low window_bits − bits bits of code (i + 1, j) are the high ones of code (i, j), and a weight costs `bits`
/// bits, whatever the palette's size. A stream has window_bits − bits more bits at its end, so that every window is
/// there. In memory a stream is little-endian, least significant bit of each byte first, padded to whole bytes with
/// zeros; streams stand one after the other, (cols, column_bytes()).
struct WindowedLayout {
  std::size_t rows = 0, cols = 0;
  unsigned bits = 2;         ///< from one window to the next: 1 to kMostWindowStep
  unsigned window_bits = 6;  ///< kLeastWindowBits to kMostWindowBits, more than `bits`

  /// Throws FormatError for `what`, naming the first of these numbers that is out of range, or sizes that do not fit in
  /// 64 bits. Whatever else is here requires it.
  void check(std::string_view what = "windowed codes") const;

  std::size_t entries() const { return std::size_t{1} << window_bits; }  ///< of the palette
  std::size_t column_bits() const { return rows * bits + (window_bits - bits); }
  std::size_t column_bytes() const { return column_bits() / 8 + (column_bits() % 8 != 0 ? 1 : 0); }
  std::size_t bytes() const { return cols * column_bytes(); }

  friend bool operator==(const WindowedLayout&, const WindowedLayout&) = default;
};

/// Whether code (i + 1) may follow code (i), with equation (1).
constexpr bool windows_overlap(const WindowedLayout& layout, std::uint16_t code, std::uint16_t next) {
  return (next & ((1u << (layout.window_bits - layout.bits)) - 1u)) == static_cast<unsigned>(code) >> layout.bits;
}

/// Packs the codes of one input, (rows), into its stream of column_bytes() bytes.
/// Throws InvalidArgument: a size that is not the layout's, a code beyond window_bits bits, or one that does not
/// overlap the one before as (1) has it (named by its row).
void pack_windows(const WindowedLayout& layout, std::span<const std::uint16_t> codes, std::span<std::byte> column);

/// The inverse: the codes of rows [first_row, first_row + block.rows()) and inputs [first_column, first_column +
/// block.cols()), as (rows, columns), from all streams, layout.bytes() bytes. Padding is not looked at. Throws
/// InvalidArgument for what lies outside.
void unpack_window_block(const WindowedLayout& layout, std::span<const std::byte> streams, std::size_t first_row,
                         std::size_t first_column, MatrixView<std::uint16_t> block);

}  // namespace nibble::quant
