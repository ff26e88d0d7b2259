#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"
#include "quant/algo/windows/window_search.h"

namespace nibble::quant {

/// A windowed palette as a rounding: the codes of a column are those of the stream with the least Σ_i f_ij (v_i − s_i
/// c[q_i])², found by one WindowSearch. Under a Hessian, which all rows share, f is 1: so a column of error feedback is
/// rounded as well as its errors allow, and a step of coordinate descent reaches the least loss of its column.
class WindowRounding final : public BasicColumnRounding<std::uint16_t> {
 public:
  /// palette (2^window_bits); windows of `rows` rows go on by `bits` bits; scales s (rows), or empty for ones; weights
  /// f (rows, cols) >= 0, or an empty view for ones. palette, scales and weights must outlive the object.
  /// Throws InvalidArgument for sizes that do not fit.
  WindowRounding(std::span<const float> palette, unsigned bits, std::size_t rows, std::span<const float> scales,
                 MatrixView<const float> weights = {});

  bool whole_columns() const override { return true; }
  /// Requires first_row = 0 and all rows.
  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint16_t* codes,
             float* decoded) const override;
  void decode(std::size_t column, std::size_t first_row, std::span<const std::uint16_t> codes,
              float* decoded) const override;
  std::unique_ptr<BasicColumnRounding> rows(std::size_t first, std::size_t count, MatrixView<const std::uint16_t> codes,
                                            std::span<const float> weights) override;
  /// Twice the rows whose windows a window reaches into.
  std::size_t rows_ahead() const override;
  /// A few: where one begins, its first windows are half decided.
  std::size_t row_blocks() const override { return 8; }
  /// Piece by piece: the best stream between the windows around it as if its rows were not coupled with each other,
  /// taken where the loss falls with all of their coupling.
  void improve(std::size_t column, CoupledColumn& loss, std::span<std::uint16_t> codes,
               std::span<float> values) const override;

 private:
  void improve_piece(std::size_t first, std::size_t count, CoupledColumn& loss, std::span<std::uint16_t> codes,
                     std::span<float> values) const;
  float scale_of(std::size_t row) const { return scales_.empty() ? 1.0f : scales_[row]; }

  std::span<const float> palette_;
  unsigned bits_, window_bits_;
  std::size_t rows_;
  std::span<const float> scales_;
  MatrixView<const float> weights_;
  mutable std::vector<WindowSearch> searches_;  // by thread: they keep buffers
};

}  // namespace nibble::quant
