#include "quant/kernels/linear/packed_source.h"

#include <algorithm>

#include "core/error.h"
#include "quant/kernels/linear/window_products.h"

namespace nibble::quant {

PackedSource::PackedSource(std::shared_ptr<const PackedWeight> weight) : weight_(std::move(weight)) {
  if (!weight_->windowed()) decode_ = select_panel_decode(weight_->layout.bits, weight_->kind);
}

void PackedSource::decode_panel(std::size_t panel, std::size_t rows, float* destination, std::size_t stride) const {
  const PackedWeight& w = *weight_;
  const std::size_t first = panel * w.layout.panel_rows, at = panel * w.blocks() * kPanelRows;
  PanelDecodeArgs args{};
  args.codes = w.codes.data() + panel * w.layout.panel_bytes(w.cols);
  args.units = w.layout.units(w.cols);
  args.unit_bytes = w.layout.unit_bytes();
  args.cols = w.cols;
  args.table = w.table_of(first);
  args.row_scale = w.row_scale.empty() ? nullptr : w.row_scale.data() + first;
  if (w.scaled_blocks()) {
    args.block_scales = reinterpret_cast<const std::uint16_t*>(w.block_scales.data()) + at;
    args.block_zeros = w.block_zeros.size() == 0 ? nullptr : w.block_zeros.data() + at;
  }
  args.zero_of_table = w.middle;
  args.rows = rows;
  args.destination = destination;
  args.stride = stride;
  decode_(args);
  if (w.outlier_rows.empty()) return;
  for (std::size_t r = 0; r < rows; ++r)
    for (auto i = static_cast<std::size_t>(w.outlier_rows[first + r]);
         i < static_cast<std::size_t>(w.outlier_rows[first + r + 1]); ++i)
      destination[static_cast<std::size_t>(w.outlier_columns[i]) * stride + r] += w.outlier_values[i];
}

void PackedSource::decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const {
  NIBBLE_REQUIRE(begin <= end && end <= rows() && begin % kPanelRows == 0, InvalidArgument,
                 "packed source: rows [{}, {}) of {}, expected a first row that starts a panel", begin, end, rows());
  if (weight_->windowed()) return decode_windows(*weight_, begin, end, destination, 1, end - begin);
  for (std::size_t row = begin; row < end; row += kPanelRows)
    decode_panel(row / kPanelRows, std::min(kPanelRows, end - row), destination + (row - begin), end - begin);
}

void PackedSource::decode_rows(std::size_t begin, std::size_t end, float* destination) const {
  NIBBLE_REQUIRE(begin <= end && end <= rows(), InvalidArgument, "packed source: rows [{}, {}) of {}", begin, end,
                 rows());
  if (weight_->windowed()) return decode_windows(*weight_, begin, end, destination, cols(), 1);
  const std::size_t panel_rows = weight_->layout.panel_rows;
  if (panel_rows == 1) {
    for (std::size_t row = begin; row < end; ++row) decode_panel(row, 1, destination + (row - begin) * cols(), 1);
    return;
  }
  std::vector<float> columns(cols() * kPanelRows);
  for (std::size_t row = begin; row < end;) {
    const std::size_t panel = row / kPanelRows, stop = std::min(end, (panel + 1) * kPanelRows);
    decode_panel(panel, stop - panel * kPanelRows, columns.data(), kPanelRows);
    for (; row < stop; ++row)
      for (std::size_t j = 0; j < cols(); ++j)
        destination[(row - begin) * cols() + j] = columns[j * kPanelRows + row % kPanelRows];
  }
}

}  // namespace nibble::quant
