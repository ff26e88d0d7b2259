#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/coupled_column.h"

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

}  // namespace nibble::quant
