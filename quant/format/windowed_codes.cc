#include "quant/format/windowed_codes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/checked_math.h"
#include "core/error.h"

namespace nibble::quant {
namespace {

static_assert(std::endian::native == std::endian::little, "streams are read eight bytes at a time, as they lie");

// Eight windows begin at whole bytes and end within 4 · 8 + 10 bits: one load.
constexpr std::size_t kTogether = 8;

std::uint64_t load_from(std::span<const std::byte> column, std::size_t byte) {
  std::uint64_t word = 0;
  std::memcpy(&word, column.data() + byte, std::min(sizeof word, column.size() - byte));
  return word;
}

// visit(index, code) for `count` rows from first_row on. The column holds them.
template <class Visit>
void for_windows(const WindowedLayout& layout, std::span<const std::byte> column, std::size_t first_row,
                 std::size_t count, const Visit& visit) {
  const std::uint64_t mask = (std::uint64_t{1} << layout.window_bits) - 1;
  for (std::size_t done = 0; done < count;) {
    const std::size_t row = first_row + done, inside = row % kTogether;
    const std::size_t run = std::min(kTogether - inside, count - done);
    const std::uint64_t word = load_from(column, row / kTogether * layout.bits);
    for (std::size_t r = 0; r < run; ++r)
      visit(done + r, static_cast<std::uint16_t>(word >> ((inside + r) * layout.bits) & mask));
    done += run;
  }
}

void check_bytes(const WindowedLayout& layout, std::size_t got) {
  NIBBLE_REQUIRE(got == layout.column_bytes(), InvalidArgument,
                 "windowed codes: {} rows of {} bits in windows of {} fill {} bytes, got {}", layout.rows, layout.bits,
                 layout.window_bits, layout.column_bytes(), got);
}

void check_rows(const WindowedLayout& layout, std::size_t first_row, std::size_t count) {
  NIBBLE_REQUIRE(first_row <= layout.rows && count <= layout.rows - first_row, InvalidArgument,
                 "windowed codes: {} rows from row {} on of {}", count, first_row, layout.rows);
}

}  // namespace

void WindowedLayout::check(std::string_view what) const {
  NIBBLE_REQUIRE(rows > 0 && cols > 0, FormatError, "{}: expected a non-empty matrix, got ({}, {})", what, rows, cols);
  NIBBLE_REQUIRE(window_bits >= kLeastWindowBits && window_bits <= kMostWindowBits, FormatError,
                 "{}: window_bits: expected {} to {}, got {}", what, kLeastWindowBits, kMostWindowBits, window_bits);
  NIBBLE_REQUIRE(bits >= 1 && bits <= kMostWindowStep && bits < window_bits, FormatError,
                 "{}: bits of windows: expected 1 to {}, fewer than the {} of a window, got {}", what, kMostWindowStep,
                 window_bits, bits);
  const std::uint64_t stream = checked_add(checked_multiply(rows, bits, what), window_bits - bits, what);
  checked_multiply(checked_multiply(divide_up(stream, 8), 8, what), cols, what);
}

void pack_windows(const WindowedLayout& layout, std::span<const std::uint16_t> codes, std::span<std::byte> column) {
  NIBBLE_REQUIRE(codes.size() == layout.rows, InvalidArgument, "windowed codes: expected {} codes, got {}", layout.rows,
                 codes.size());
  check_bytes(layout, column.size());
  std::fill(column.begin(), column.end(), std::byte{0});
  std::uint64_t pending = 0;  // bits not yet stored, the first of them lowest
  unsigned held = 0;
  std::size_t at = 0;
  const auto append = [&](std::uint64_t value, unsigned count) {
    pending |= value << held;
    for (held += count; held >= 8; held -= 8, pending >>= 8) column[at++] = static_cast<std::byte>(pending & 0xFF);
  };
  for (std::size_t i = 0; i < codes.size(); ++i) {
    NIBBLE_REQUIRE(codes[i] >> layout.window_bits == 0, InvalidArgument,
                   "windowed codes: code {} of row {} does not fit in {} bits", codes[i], i, layout.window_bits);
    NIBBLE_REQUIRE(i == 0 || windows_overlap(layout, codes[i - 1], codes[i]), InvalidArgument,
                   "windowed codes: code {} of row {} does not overlap {} of the row before: expected its low {} bits "
                   "to be {}",
                   codes[i], i, codes[i - 1], layout.window_bits - layout.bits, codes[i - 1] >> layout.bits);
    const bool last = i + 1 == codes.size();
    const unsigned own = last ? layout.window_bits : layout.bits;
    append(codes[i] & ((1u << own) - 1u), own);
  }
  if (held > 0) column[at] = static_cast<std::byte>(pending & 0xFF);
}

void unpack_window_block(const WindowedLayout& layout, std::span<const std::byte> streams, std::size_t first_row,
                         std::size_t first_column, MatrixView<std::uint16_t> block) {
  NIBBLE_REQUIRE(streams.size() == layout.bytes(), InvalidArgument,
                 "windowed codes: expected {} streams of {} bytes, got {} bytes", layout.cols, layout.column_bytes(),
                 streams.size());
  check_rows(layout, first_row, block.rows());
  NIBBLE_REQUIRE(first_column <= layout.cols && block.cols() <= layout.cols - first_column, InvalidArgument,
                 "windowed codes: {} inputs from input {} on of {}", block.cols(), first_column, layout.cols);
  for (std::size_t j = 0; j < block.cols(); ++j)
    for_windows(layout, streams.subspan((first_column + j) * layout.column_bytes(), layout.column_bytes()), first_row,
                block.rows(), [&](std::size_t i, std::uint16_t code) { block(i, j) = code; });
}

}  // namespace nibble::quant
