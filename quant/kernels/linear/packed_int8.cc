#include <algorithm>

#include "core/machine/thread_pool.h"
#include "quant/kernels/linear/packed_products.h"
#include "quant/kernels/linear/token_groups.h"

namespace nibble::quant {
namespace {

// y = scale · sum; with bytes for entries, sum (step · byte + lowest) x = step · sum byte x + lowest · sum x.
void scale_rows(const PackedWeight& w, std::size_t first, std::size_t rows, const float* sums, float total,
                std::span<float> y) {
  float* out = y.data() + first;
  if (w.kind == PackedKind::kBlocks) {
    std::copy_n(sums, rows, out);
  } else if (w.block_palette()) {
    for (std::size_t i = 0; i < rows; ++i) out[i] = w.byte_step[first + i] * sums[i];
  } else {
    const float *steps = w.byte_step.data() + first, *lowest = w.byte_lowest.data() + first;
    for (std::size_t i = 0; i < rows; ++i) out[i] = steps[i] * sums[i] + lowest[i] * total;
  }
}

}  // namespace

Int8MatvecArgs int8_args(const PackedWeight& weight, std::size_t begin, std::size_t end,
                         const QuantizedActivations& q) {
  const ExactMatvecArgs exact = panel_args(weight, begin, end);
  Int8MatvecArgs args{};
  args.codes = exact.codes;
  args.panels = exact.panels;
  args.units = exact.units;
  args.unit_bytes = exact.unit_bytes;
  args.tables = weight.byte_tables.data();
  args.first_panel = exact.first_panel;
  args.panels_per_table = exact.panels_per_table;
  args.block_scales = exact.block_scales;
  args.block_zeros = exact.block_zeros;
  args.middle = static_cast<std::int32_t>(weight.middle);
  args.x = q.values.data();
  args.x_magnitudes = q.magnitudes.data();
  args.x_negative = q.negative.data();
  args.x_scales = q.scales.data();
  args.lane_scales = q.lane_scales.data();
  args.x_sums = q.sums.data();
  args.x_less = q.less.data();
  args.x_total = q.total;
  args.x_less_total = q.less_total;
  args.blocks = exact.blocks;
  return args;
}

Int8MatvecKernel int8_kernel(const PackedWeight& weight, const Int8MatvecTable& kernels) {
  return kernels.by_width[width_index(weight.layout.bits)][static_cast<std::size_t>(weight.kind)];
}

void multiply_int8(const PackedWeight& w, const Int8MatvecTable& kernels, std::span<const float> bias,
                   std::span<const float> x, std::span<float> y) {
  const CodeLayout& layout = w.layout;
  thread_local QuantizedActivations quantized;
  QuantizedActivations& q = quantized;  // the calling thread's, for all threads
  const Int8MatvecKernel kernel = int8_kernel(w, kernels);
  quantize_activations(
      x, layout.padded_inputs(w.cols), kernels.quantize,
      {.block = inputs_per_block(w.kind), .lane_scales = layout.panel_rows == 1, .apart = kernel.takes_apart}, q);
  const std::size_t panels = layout.panels(w.rows);
  parallel_for_tiles(panels, run_length(panels, layout.panel_bytes(w.cols)), [&](std::size_t begin, std::size_t end) {
    thread_local std::vector<float> sums;
    const std::size_t first = begin * layout.panel_rows, all = (end - begin) * layout.panel_rows;
    const std::size_t rows = std::min(w.rows - first, all);
    sums.resize(all);
    Int8MatvecArgs args = int8_args(w, begin, end, q);
    args.y = sums.data();
    kernel.run(args);
    scale_rows(w, first, rows, sums.data(), q.total, y);
    add_outliers_and_bias(w, bias, x, first, rows, y);
  });
}

}  // namespace nibble::quant
