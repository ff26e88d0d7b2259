#include <algorithm>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "quant/kernels/int8/quantized_tiles.h"
#include "quant/kernels/linear/packed_products.h"

namespace nibble::quant {
namespace {

// Tokens quantized at a time: 8 MB for 8192 inputs. Unpacking the weights anew for each thousand costs nothing.
constexpr std::size_t kMostTokens = 1024;

// Of a cache: vectors that straddle two of them cost twice.
struct alignas(64) Line {
  float floats[kPanelRows] = {};
};

Int8MatmulArgs tile_args(const PackedWeight& w, std::size_t first_row, std::size_t panels, const QuantizedTiles& x) {
  const std::size_t first_panel = first_row / w.layout.panel_rows;
  const ExactMatvecArgs exact = panel_args(w, first_panel, first_panel);  // which counts panels of R rows: told below
  Int8MatmulArgs args{};
  args.codes = exact.codes;
  args.panels = panels;
  args.units = exact.units;
  args.unit_bytes = exact.unit_bytes;
  args.rows = w.rows - first_row;
  args.tables = w.byte_tables.data();
  args.first_panel = exact.first_panel;
  args.panels_per_table = exact.panels_per_table;
  args.block_scales = exact.block_scales;
  args.block_zeros = exact.block_zeros;
  if (!w.scaled_blocks()) {
    args.byte_step = w.byte_step.data() + first_row;
    args.byte_lowest = w.byte_lowest.data() + first_row;
  }
  args.x = x.view();
  return args;
}

void multiply_some(const PackedWeight& w, const Int8MatvecTable& matvec, const Int8MatmulTable& kernels,
                   std::span<const float> bias, MatrixView<const float> x, MatrixView<float> y) {
  thread_local QuantizedTiles tiles;
  QuantizedTiles& q = tiles;  // the calling thread's, for all threads
  const std::size_t width = width_index(w.layout.bits), kind = static_cast<std::size_t>(w.kind);
  const bool shifted = w.scaled_blocks() && w.block_zeros.size() == 0;
  const int start = kernels.less[width][kind] - (shifted ? static_cast<int>(w.middle) : 0);
  quantize_tiles(x, w.layout.padded_inputs(w.cols), matvec.quantize, kernels.tile, start, inputs_per_block(w.kind), q);
  const std::size_t panels = divide_up(w.rows, kPanelRows);
  parallel_for_tiles(panels, kernels.most_panels, [&](std::size_t begin, std::size_t end) {
    thread_local std::vector<Line> sums;
    const std::size_t first = begin * kPanelRows, rows = std::min(w.rows - first, (end - begin) * kPanelRows);
    sums.assign(q.tiles * kernels.tile.tokens * (end - begin), Line{});
    Int8MatmulArgs args = tile_args(w, first, end - begin, q);
    args.sums = sums.front().floats;
    args.y = y.row(0).data() + first;
    args.y_stride = y.stride();
    kernels.by_width[width][kind](args);
    for (std::size_t t = 0; w.block_palette() && t < x.rows(); ++t)
      for (std::size_t row = first; row < first + rows; ++row) y(t, row) *= w.byte_step[row];
    if (w.outlier_rows.empty() && bias.empty()) return;
    for (std::size_t t = 0; t < x.rows(); ++t) add_outliers_and_bias(w, bias, x.row(t), first, rows, y.row(t));
  });
}

}  // namespace

void multiply_int8_tokens(const PackedWeight& weight, const Int8MatvecTable& matvec, const Int8MatmulTable& kernels,
                          std::span<const float> bias, MatrixView<const float> x, MatrixView<float> y) {
  for (std::size_t first = 0; first < x.rows(); first += kMostTokens) {
    const std::size_t tokens = std::min(kMostTokens, x.rows() - first);
    multiply_some(weight, matvec, kernels, bias, x.rows_slice(first, tokens), y.rows_slice(first, tokens));
  }
}

}  // namespace nibble::quant
