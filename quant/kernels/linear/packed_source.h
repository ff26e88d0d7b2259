#pragma once

#include <memory>

#include "core/matrix/linear_op.h"
#include "quant/kernels/exact/panel_decode.h"
#include "quant/kernels/packing/packed_weight.h"

namespace nibble::quant {

/// Decodes a packed weight to float, tile by tile, for the GEMM door: just the values of the format. Panels of 16 rows
/// come out transposed.
class PackedSource final : public WeightSource {
 public:
  explicit PackedSource(std::shared_ptr<const PackedWeight> weight);
  std::size_t rows() const override { return weight_->rows; }
  std::size_t cols() const override { return weight_->cols; }
  const std::shared_ptr<const PackedWeight>& weight() const { return weight_; }
  std::size_t rows_together() const override { return weight_->windowed() ? kWindowRows : 1; }
  bool stored_transposed() const override { return weight_->windowed() || weight_->layout.panel_rows == kPanelRows; }
  /// Rows in any order; of panels of 16 rows at the speed of plain loops.
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override;
  /// Throws InvalidArgument unless `begin` is a multiple of 16.
  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override;

 private:
  /// Decodes the first `rows` rows of a panel.
  void decode_panel(std::size_t panel, std::size_t rows, float* destination, std::size_t stride) const;

  std::shared_ptr<const PackedWeight> weight_;
  PanelDecode decode_ = nullptr;  ///< none for windows
};

}  // namespace nibble::quant
