#include "export/packed_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/machine/thread_pool.h"
#include "quant/format/codes.h"

namespace nibble::exporting {
namespace {

constexpr std::size_t kPieceBytes = 16 << 20;
constexpr std::size_t kRowTile = 16;

}  // namespace

void write_rows(std::size_t rows, std::size_t bytes,
                const std::function<void(std::size_t row, std::span<std::byte> bytes)>& fill, const ByteSink& sink) {
  const std::size_t step = std::max<std::size_t>(1, kPieceBytes / std::max<std::size_t>(1, bytes));
  std::vector<std::byte> piece(std::min(step, rows) * bytes);
  for (std::size_t begin = 0; begin < rows; begin += step) {
    const std::size_t count = std::min(step, rows - begin);
    parallel_for_tiles(count, kRowTile, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) fill(begin + i, std::span(piece).subspan(i * bytes, bytes));
    });
    sink(std::span(piece).first(count * bytes));
  }
}

template <class T>
void write_columns(std::size_t rows, std::size_t width,
                   const std::function<void(std::size_t row, std::span<T> values)>& fill, const ByteSink& sink) {
  Matrix<T> whole(rows, width);
  parallel_for_tiles(rows, kRowTile, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) fill(i, whole.row(i));
  });
  const std::size_t step = std::clamp<std::size_t>(kPieceBytes / (rows * sizeof(T)), 1, width);
  std::vector<T> piece(step * rows);
  for (std::size_t begin = 0; begin < width; begin += step) {
    const std::size_t count = std::min(step, width - begin);
    // Blocks of rows whose lines of the cache serve all columns of the piece that lie in them.
    parallel_for_tiles(rows, 64, [&](std::size_t first, std::size_t last) {
      constexpr std::size_t kColumns = 64 / sizeof(T);
      for (std::size_t c0 = 0; c0 < count; c0 += kColumns)
        for (std::size_t c = c0; c < std::min(count, c0 + kColumns); ++c)
          for (std::size_t i = first; i < last; ++i) piece[c * rows + i] = whole(i, begin + c);
    });
    sink(std::as_bytes(std::span(piece).first(count * rows)));
  }
}

template void write_columns(std::size_t, std::size_t, const std::function<void(std::size_t, std::span<std::uint16_t>)>&,
                            const ByteSink&);
template void write_columns(std::size_t, std::size_t, const std::function<void(std::size_t, std::span<std::uint32_t>)>&,
                            const ByteSink&);

void write_streams(const IntegerGrid& grid, const ByteSink& sink) {
  write_rows(
      grid.rows(), stream_words(grid.cols(), grid.bits()) * sizeof(std::uint32_t),
      [&](std::size_t row, std::span<std::byte> bytes) { grid.copy_stream(row, bytes); }, sink);
}

void write_transposed_streams(const IntegerGrid& grid, const ByteSink& sink) {
  write_columns<std::uint32_t>(
      grid.rows(), stream_words(grid.cols(), grid.bits()),
      [&](std::size_t row, std::span<std::uint32_t> words) { grid.copy_stream(row, std::as_writable_bytes(words)); },
      sink);
}

void write_scales(const IntegerGrid& grid, std::size_t group, const ByteSink& sink) {
  const std::size_t groups = grid.cols() / group;
  write_rows(
      grid.rows(), groups * sizeof(std::uint16_t),
      [&](std::size_t row, std::span<std::byte> bytes) {
        std::vector<std::uint16_t> scales(groups);
        grid.scales(row, group, scales);
        std::memcpy(bytes.data(), scales.data(), bytes.size());
      },
      sink);
}

void write_transposed_scales(const IntegerGrid& grid, std::size_t group, const ByteSink& sink) {
  write_columns<std::uint16_t>(
      grid.rows(), grid.cols() / group,
      [&](std::size_t row, std::span<std::uint16_t> scales) { grid.scales(row, group, scales); }, sink);
}

Matrix<std::uint32_t> zero_streams(const IntegerGrid& grid, std::size_t group, unsigned less) {
  const std::size_t groups = (grid.cols() + group - 1) / group, words = stream_words(grid.rows(), grid.bits());
  Matrix<std::uint8_t> zeros(grid.rows(), groups);
  parallel_for_tiles(grid.rows(), 64, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) grid.zeros(i, group, zeros.row(i));
  });
  Matrix<std::uint32_t> streams(groups, words);
  parallel_for_tiles(groups, 1, [&](std::size_t first, std::size_t last) {
    std::vector<std::uint8_t> column(grid.rows());
    for (std::size_t g = first; g < last; ++g) {
      for (std::size_t i = 0; i < column.size(); ++i) column[i] = static_cast<std::uint8_t>(zeros(i, g) - less);
      quant::pack_codes(
          column, grid.bits(),
          std::as_writable_bytes(streams.row(g)).first(quant::packed_row_bytes(grid.rows(), grid.bits())));
    }
  });
  return streams;
}

}  // namespace nibble::exporting
