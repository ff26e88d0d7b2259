#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/matrix_view.h"
#include "quant/algo/block_rounding.h"
#include "quant/algo/coupled_column.h"

namespace nibble::quant {

/// How a column of values, one per row, becomes codes: what error feedback and coordinate descent are generic over.
/// Different rows may be handled on different threads at once. Code: std::uint8_t, or std::uint16_t for codes that need
/// it.
template <class Code>
class BasicColumnRounding {
 public:
  virtual ~BasicColumnRounding() = default;

  /// Whether codes of a column depend on each other, so that round() is to be given all rows at once.
  virtual bool whole_columns() const { return false; }

  /// Codes for `values`, meant for input `column` of rows first_row …, and what the codes decode to. Never fails,
  /// whatever the values.
  virtual void round(std::size_t column, std::size_t first_row, std::span<const float> values, Code* codes,
                     float* decoded) const = 0;
  virtual void decode(std::size_t column, std::size_t first_row, std::span<const Code> codes, float* decoded) const = 0;

  /// Inputs per block whose grid is to be chosen anew, by adapt(), when the first of them is reached; 0 = never.
  virtual std::size_t adaptive_block() const { return 0; }
  /// `current` (rows, inputs of the block): the weights as they are when the block is reached.
  virtual void adapt(std::size_t /*block*/, std::size_t /*first_row*/, MatrixView<const float> /*current*/) {}

  /// This rounding for rows [first, first + count) alone, numbered from 0, the codes of all rows before them being
  /// `codes` (out, in): their codes go on from there. `weights` (count) > 0: what an error of each row costs, where
  /// codes of different rows depend on each other. This, codes and weights must outlive it.
  virtual std::unique_ptr<BasicColumnRounding> rows(std::size_t first, std::size_t count, MatrixView<const Code> codes,
                                                    std::span<const float> weights);
  /// Rows behind those of rows() that are to be rounded with them, for nothing but that the codes before end well.
  virtual std::size_t rows_ahead() const { return 0; }
  /// Into how many blocks of rows() a weight is to be cut.
  virtual std::size_t row_blocks() const { return 32; }

  /// Lowers the loss of a column in which all rows are coupled, by codes that are better while the others stay: here
  /// row by row. `values` (out): what `codes` (out) decode to, before and after.
  virtual void improve(std::size_t column, CoupledColumn& loss, std::span<Code> codes, std::span<float> values) const;
};

using ColumnRounding = BasicColumnRounding<std::uint8_t>;

/// Nearest entry of s_i · c_k. The scales may be negative; where one is 0 everything decodes to 0.
class PaletteRounding final : public ColumnRounding {
 public:
  /// palettes (groups, k), ascending, finite, 1 <= k <= 256, one per `group_rows` rows (0 = all rows share the only
  /// one); scales (out), or empty for ones. Both must outlive the object. Throws InvalidArgument.
  PaletteRounding(MatrixView<const float> palettes, std::size_t group_rows, std::span<const float> scales);

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
             float* decoded) const override;
  void decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
              float* decoded) const override;

 private:
  std::size_t group_of(std::size_t row) const { return group_rows_ == 0 ? 0 : row / group_rows_; }
  float scale_of(std::size_t row) const { return scales_.empty() ? 1.0f : scales_[row]; }

  MatrixView<const float> palettes_;
  std::size_t group_rows_;
  std::span<const float> scales_;
  unsigned levels_ = 0;   // 2^levels_ >= k
  Matrix<float> bounds_;  // (groups, 2^levels_): values above bounds_(g, c) are nearer to entry c + 1 than to c
};

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
  /// Nearest codes of the weights given to the constructor.
  const Matrix<std::uint8_t>& nearest_codes() const { return grids_.codes; }

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
