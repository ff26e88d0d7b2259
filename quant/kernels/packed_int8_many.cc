#include <algorithm>
#include <cstring>

#include "core/checked_math.h"
#include "core/dtype.h"
#include "core/thread_pool.h"
#include "quant/kernels/packed_products.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kBlockBytes = kPanelRows * kBlockInputs;

// Activations as the kernels read them, in tiles of tokens; tokens that only fill the last tile are zeros.
struct Tiles {
  std::size_t tokens = 0, tile = 0, blocks = 0;
  std::vector<std::int8_t> values;         // (tiles, blocks, tile, 32)
  std::vector<float> scales;               // (tiles, blocks, tile)
  std::vector<std::int32_t> sums, starts;  // the same
  std::vector<float> totals;               // (tokens)
  std::size_t count() const { return divide_up(tokens, tile); }
};

// Integer sums start from `start` times the sum of a block's activations.
void fill_tiles(MatrixView<const float> x, std::size_t padded, const Int8MatvecTable& kernels, std::size_t tile,
                std::int32_t start, Tiles& tiles) {
  tiles.tokens = x.rows();
  tiles.tile = tile;
  tiles.blocks = padded / kBlockInputs;
  const std::size_t scalars = tiles.count() * tiles.blocks * tile;
  tiles.values.resize(scalars * kBlockInputs);
  tiles.scales.resize(scalars);
  tiles.sums.resize(scalars);
  tiles.starts.resize(scalars);
  tiles.totals.resize(x.rows());
  parallel_for_tiles(tiles.count() * tile, tile, [&](std::size_t begin, std::size_t end) {
    thread_local QuantizedActivations quantized;
    QuantizedActivations& q = quantized;
    for (std::size_t token = begin; token < end; ++token) {
      const bool real = token < x.rows();
      if (real) {
        quantize_activations(x.row(token), padded, kernels.quantize, false, q);
        tiles.totals[token] = q.total;
      }
      for (std::size_t block = 0; block < tiles.blocks; ++block) {
        const std::size_t at = (begin / tile * tiles.blocks + block) * tile + (token - begin);
        std::int8_t* values = tiles.values.data() + at * kBlockInputs;
        if (real)
          std::memcpy(values, q.values.data() + block * kBlockInputs, kBlockInputs);
        else
          std::memset(values, 0, kBlockInputs);
        tiles.scales[at] = real ? q.scales[block] : 0.0f;
        tiles.sums[at] = real ? q.sums[block] : 0;
        tiles.starts[at] = start * tiles.sums[at];
      }
    }
  });
}

// Panels of 16 rows in bytes, for one thread.
struct Panels {
  std::vector<std::uint8_t> weights;  // (panels, blocks, 8, 16, 4)
  std::vector<float> scales;          // (panels, blocks, 16)
  std::vector<std::uint32_t> zeros;   // the same
  std::vector<std::uint8_t> row;
};

// Rows of R = 1 layouts are taken apart one by one, and their inputs dealt out four by four.
void decode_single_rows(const PackedWeight& w, DecodeToBytes decode, std::size_t first, Panels& panels,
                        std::uint8_t* weights) {
  const std::size_t units = w.layout.units(w.cols), padded = w.layout.padded_inputs(w.cols);
  panels.row.resize(padded);
  for (std::size_t r = 0; r < kPanelRows; ++r) {
    const std::size_t row = first + r;
    if (row >= w.rows) {
      for (std::size_t i = 0; i < padded / 4; ++i) std::memset(weights + (i * kPanelRows + r) * 4, 0, 4);
      continue;
    }
    const std::size_t table = w.rows_per_table == 0 ? 0 : row / w.rows_per_table;
    decode(w.codes.data() + row * w.layout.panel_bytes(w.cols), units, w.byte_tables.data() + table * w.byte_entries(),
           panels.row.data());
    for (std::size_t i = 0; i < padded / 4; ++i)
      std::memcpy(weights + (i * kPanelRows + r) * 4, panels.row.data() + i * 4, 4);
  }
}

void decode_panel(const PackedWeight& w, const Int8Width& width, std::size_t panel, std::size_t place, Panels& panels) {
  const std::size_t blocks = w.blocks(), scalars = blocks * kPanelRows;
  std::uint8_t* weights = panels.weights.data() + place * blocks * kBlockBytes;
  if (w.layout.panel_rows == 1) return decode_single_rows(w, width.decode, panel * kPanelRows, panels, weights);
  const std::size_t table = w.rows_per_table == 0 ? 0 : panel * kPanelRows / w.rows_per_table;
  width.decode(w.codes.data() + panel * w.layout.panel_bytes(w.cols), w.layout.units(w.cols),
               w.byte_tables.data() + table * w.byte_entries(), weights);
  if (w.kind != PackedKind::kBlocks) return;
  convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(w.block_scales.data()) + panel * scalars * 2, scalars,
                 panels.scales.data() + place * scalars);
  for (std::size_t i = 0; i < scalars && w.block_zeros.size() > 0; ++i)
    panels.zeros[place * scalars + i] = static_cast<std::uint16_t>(-int{w.block_zeros.data()[panel * scalars + i]});
}

// Panels that are taken apart together: so many that activations, read for all of them, come from memory rarely, and
// bytes of weights stay in a second-level cache; but a share for every thread.
std::size_t panels_together(std::size_t panels, std::size_t panel_bytes) {
  constexpr std::size_t kCacheBytes = 512u << 10;
  const std::size_t share = divide_up(panels, 2 * thread_count());
  return std::max<std::size_t>(1, std::min(kCacheBytes / panel_bytes, share));
}

// y = scale · sum; with bytes for entries, sum (step · byte + lowest) x = step · sum byte x + lowest · sum x.
void scale_rows(const PackedWeight& w, std::size_t first, std::size_t rows, const float* sums, float total, float* y) {
  if (w.kind == PackedKind::kBlocks) {
    std::copy_n(sums, rows, y);
  } else {
    const float *steps = w.byte_step.data() + first, *lowest = w.byte_lowest.data() + first;
    for (std::size_t i = 0; i < rows; ++i) y[i] = steps[i] * sums[i] + lowest[i] * total;
  }
}

}  // namespace

void multiply_int8_many(const PackedWeight& w, const Int8MatvecTable& vector_kernels, const Int8MatmulTable& kernels,
                        std::span<const float> bias, MatrixView<const float> x, MatrixView<float> y) {
  const bool blocks_kind = w.kind == PackedKind::kBlocks, zeros = w.block_zeros.size() > 0;
  const Int8Width& width = kernels.by_width[width_index(w.layout.bits)][blocks_kind ? 1 : 0];
  const std::int32_t middle = blocks_kind && !zeros ? static_cast<std::int32_t>(w.middle) : 0;
  thread_local Tiles activations;
  Tiles& tiles = activations;  // the calling thread's, for all threads
  fill_tiles(x, w.layout.padded_inputs(w.cols), vector_kernels, kernels.tile_tokens, width.less - middle, tiles);

  const std::size_t blocks = tiles.blocks, scalars = blocks * kPanelRows, panel_bytes = blocks * kBlockBytes;
  const std::size_t count = divide_up(w.rows, kPanelRows), together = panels_together(count, panel_bytes);
  parallel_for_tiles(count, together, [&](std::size_t begin, std::size_t end) {
    thread_local Panels panels;
    panels.weights.resize(together * panel_bytes);
    if (blocks_kind) panels.scales.resize(together * scalars);
    if (zeros) panels.zeros.resize(together * scalars);
    for (std::size_t panel = begin; panel < end; ++panel) decode_panel(w, width, panel, panel - begin, panels);
    float sums[kMostTileTokens * kPanelRows];
    for (std::size_t tile = 0; tile < tiles.count(); ++tile) {
      const std::size_t first_scalar = tile * blocks * tiles.tile;
      const std::size_t first_token = tile * tiles.tile, tokens = std::min(tiles.tile, x.rows() - first_token);
      Int8MatmulArgs args{};
      args.blocks = blocks;
      args.x = tiles.values.data() + first_scalar * kBlockInputs;
      args.x_scales = tiles.scales.data() + first_scalar;
      args.x_sums = tiles.sums.data() + first_scalar;
      args.starts = tiles.starts.data() + first_scalar;
      args.y = sums;
      for (std::size_t panel = begin; panel < end; ++panel) {
        args.weights = panels.weights.data() + (panel - begin) * panel_bytes;
        if (blocks_kind) args.scales = panels.scales.data() + (panel - begin) * scalars;
        if (zeros) args.zeros = panels.zeros.data() + (panel - begin) * scalars;
        width.multiply(args);
        const std::size_t first = panel * kPanelRows, rows = std::min(kPanelRows, w.rows - first);
        for (std::size_t t = 0; t < tokens; ++t) {
          const std::size_t token = first_token + t;
          scale_rows(w, first, rows, sums + t * kPanelRows, tiles.totals[token], y.row(token).data() + first);
          add_outliers_and_bias(w, bias, x.row(token), first, rows, y.row(token));
        }
      }
    }
  });
}

}  // namespace nibble::quant
