#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/matrix/matrix_view.h"
#include "quant/algo/blocks/block_rounding.h"
#include "quant/algo/rounding/column_rounding.h"

namespace nibble::quant {

/// Uniform grids per block of inputs, those that round_blocks() chooses.
class GridRounding final : public ColumnRounding {
 public:
  /// Static: the grids of the weights `w` as they are. Otherwise each block's grid is chosen when error feedback
  /// reaches it, from the weights as they are then; whole rows (block = 0) are the same either way. Throws as
  /// round_blocks().
  GridRounding(MatrixView<const float> w, const BlockRoundingOptions& options, bool static_groups);
  /// Static: the grids that `rounded` has, searched ones for example. `options` as they were made with.
  GridRounding(BlockRounding rounded, const BlockRoundingOptions& options);

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
             float* decoded) const override;
  void decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
              float* decoded) const override;
  std::size_t adaptive_block() const override { return static_groups_ ? 0 : block_; }
  void adapt(std::size_t block, std::size_t first_row, MatrixView<const float> current) override;

  const Matrix<float>& scales() const { return grids_.scales; }       ///< as BlockRounding::scales
  const Matrix<std::uint8_t>& zeros() const { return grids_.zeros; }  ///< as BlockRounding::zeros

 private:
  float zero_of(std::size_t row, std::size_t block) const {
    return grids_.zeros.size() == 0 ? half_ : static_cast<float>(grids_.zeros(row, block));
  }

  BlockRoundingOptions options_;
  std::size_t block_;
  bool static_groups_;
  float half_, top_;
  BlockRounding grids_;
};

}  // namespace nibble::quant
