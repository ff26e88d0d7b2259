#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/matrix/matrix_view.h"
#include "quant/algo/rounding/column_rounding.h"

namespace nibble::quant {

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

}  // namespace nibble::quant
