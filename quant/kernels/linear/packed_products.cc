#include "quant/kernels/linear/packed_products.h"

#include <limits>

#include "core/machine/thread_pool.h"
#include "quant/kernels/linear/token_groups.h"

namespace nibble::quant {
namespace {

// y = scale · sum for the rows of a run that exist.
void scale_rows(const PackedWeight& w, std::size_t first, std::size_t rows, const float* sums, std::span<float> y) {
  float* out = y.data() + first;
  if (w.row_scale.empty()) {
    std::copy_n(sums, rows, out);
  } else {
    const float* scales = w.row_scale.data() + first;
    for (std::size_t i = 0; i < rows; ++i) out[i] = scales[i] * sums[i];
  }
}

}  // namespace

ExactMatvecArgs panel_args(const PackedWeight& w, std::size_t begin, std::size_t end) {
  ExactMatvecArgs args{};
  args.codes = w.codes.data() + begin * w.layout.panel_bytes(w.cols);
  args.panels = end - begin;
  args.units = w.layout.units(w.cols);
  args.unit_bytes = w.layout.unit_bytes();
  args.tables = w.tables.data();
  args.first_panel = begin;
  args.panels_per_table =
      w.rows_per_table == 0 ? std::numeric_limits<std::size_t>::max() : w.rows_per_table / w.layout.panel_rows;
  args.blocks = w.blocks();
  args.zero_of_table = w.middle;
  if (w.scaled_blocks()) {
    const std::size_t at = begin * w.blocks() * kPanelRows;
    args.block_scales = reinterpret_cast<const std::uint16_t*>(w.block_scales.data()) + at;
    args.block_zeros = w.block_zeros.size() == 0 ? nullptr : w.block_zeros.data() + at;
  }
  return args;
}

void add_outliers_and_bias(const PackedWeight& w, std::span<const float> bias, std::span<const float> x,
                           std::size_t first, std::size_t rows, std::span<float> y) {
  for (std::size_t row = first; row < first + rows && !w.outlier_rows.empty(); ++row) {
    const auto begin = static_cast<std::size_t>(w.outlier_rows[row]),
               end = static_cast<std::size_t>(w.outlier_rows[row + 1]);
    float sum = 0.0f;
    for (std::size_t i = begin; i < end; ++i)
      sum += w.outlier_values[i] * x[static_cast<std::size_t>(w.outlier_columns[i])];
    y[row] += sum;
  }
  if (!bias.empty())
    for (std::size_t row = first; row < first + rows; ++row) y[row] += bias[row];
}

void multiply_exact(const PackedWeight& w, std::span<const float> bias, MatrixView<const float> x,
                    MatrixView<float> y) {
  const CodeLayout& layout = w.layout;
  thread_local Activations activations;
  Activations& arranged = activations;  // the calling thread's, for all threads
  arrange_activations(x, layout.padded_inputs(w.cols), layout.panel_rows == 1, w.block_zeros.size() > 0, arranged);
  const std::size_t panels = layout.panels(w.rows);
  parallel_for_tiles(panels, run_length(panels, layout.panel_bytes(w.cols)), [&](std::size_t begin, std::size_t end) {
    thread_local std::vector<float> sums;
    const std::size_t first = begin * layout.panel_rows, all = (end - begin) * layout.panel_rows;
    const std::size_t rows = std::min(w.rows - first, all);
    sums.resize(kTokenGroup * all);
    for_token_groups(x.rows(), [&](std::size_t token, std::size_t tokens) {
      ExactMatvecArgs args = panel_args(w, begin, end);
      args.x = arranged.values.data() + token * arranged.stride;
      args.x_stride = arranged.stride;
      args.block_sums = arranged.block_sums.data() + (arranged.block_sums.empty() ? 0 : token * w.blocks());
      args.y = sums.data();
      args.y_stride = all;
      select_exact_matvec(layout.bits, w.kind, tokens)(args);
      for (std::size_t t = 0; t < tokens; ++t) {
        scale_rows(w, first, rows, sums.data() + t * all, y.row(token + t));
        add_outliers_and_bias(w, bias, x.row(token + t), first, rows, y.row(token + t));
      }
    });
  });
}

}  // namespace nibble::quant
