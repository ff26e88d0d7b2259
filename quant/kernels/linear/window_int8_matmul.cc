#include <algorithm>
#include <vector>

#include "core/checked_math.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "quant/kernels/int8/int8_matmul.h"
#include "quant/kernels/linear/window_products.h"

// The matrix kernels of int8_matmul.h take vectors of windows for panels of 16 rows, and what they make of them goes to
// the rows that those lanes are.
namespace nibble::quant {
namespace {

constexpr std::size_t kMostWindowTokens = 1024;  // quantized at a time: 8 MB for 8192 inputs
constexpr std::size_t kVectorsOfPanel = kWindowRows / kPanelRows;

// The inverse of byte_place(): lane `lane` of vector `vector` of a weight.
constexpr std::size_t row_of_lane(std::size_t vector, std::size_t lane) {
  const std::size_t m = vector % kVectorsOfPanel;
  return vector / kVectorsOfPanel * kWindowRows + lane / 2 * kChunkRows + 2 * m + lane % 2;
}
static_assert(byte_place(row_of_lane(5, 11)) == 5 * kPanelRows + 11);

struct alignas(64) SumsLine {
  float floats[kPanelRows] = {};
};

// Vectors [begin, end) of a weight times all tokens.
void multiply_vectors(const PackedWeight& w, const Int8MatmulTable& kernels, const QuantizedTiles& q,
                      std::span<const float> bias, std::size_t begin, std::size_t end, MatrixView<float> y) {
  thread_local std::vector<SumsLine> sums;
  thread_local std::vector<float> products, steps, lowest;
  const std::size_t lanes = (end - begin) * kPanelRows;
  sums.assign(q.tiles * kernels.tile.tokens * (end - begin), SumsLine{});
  products.resize(q.tokens * lanes);
  steps.assign(lanes, 0.0f);
  lowest.assign(lanes, 0.0f);
  thread_local std::vector<std::size_t> rows;
  rows.resize(lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    rows[lane] = row_of_lane(begin + lane / kPanelRows, lane % kPanelRows);
    if (rows[lane] >= w.rows) continue;
    steps[lane] = w.byte_step[rows[lane]];
    lowest[lane] = w.byte_lowest[rows[lane]];
  }
  const Int8MatmulWindows windows{select_window_int8_kernels(w.windows)->unpack,
                                  w.codes.data(),
                                  w.windows.panel_bytes(w.cols),
                                  w.windows,
                                  window_tables(w),
                                  begin};
  Int8MatmulArgs args{};
  args.panels = end - begin;
  args.rows = lanes;
  args.byte_step = steps.data();
  args.byte_lowest = lowest.data();
  args.windows = &windows;
  args.x = q.view();
  args.sums = sums.front().floats;
  args.y = products.data();
  args.y_stride = lanes;
  kernels.windows(args);
  for (std::size_t t = 0; t < q.tokens; ++t)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      if (const std::size_t row = rows[lane]; row < w.rows)
        y(t, row) = bias.empty() ? products[t * lanes + lane] : products[t * lanes + lane] + bias[row];
}

}  // namespace

void multiply_windows_int8_tokens(const PackedWeight& w, std::span<const float> bias, MatrixView<const float> x,
                                  MatrixView<float> y) {
  const Int8MatmulTable& kernels = active_int8_matmul();
  for (std::size_t first = 0; first < x.rows(); first += kMostWindowTokens) {
    const std::size_t tokens = std::min(kMostWindowTokens, x.rows() - first);
    thread_local QuantizedTiles tiles;
    QuantizedTiles& q = tiles;  // the calling thread's, for all threads
    quantize_tiles(x.rows_slice(first, tokens), w.windows.padded_inputs(w.cols), active_int8_matvec().quantize,
                   kernels.tile, kernels.less[0][0], kBlockInputs, q);
    parallel_for_tiles(w.windows.panels(w.rows) * kVectorsOfPanel, kernels.most_panels,
                       [&](std::size_t begin, std::size_t end) {
                         multiply_vectors(w, kernels, q, bias, begin, end, y.rows_slice(first, tokens));
                       });
  }
}

}  // namespace nibble::quant
