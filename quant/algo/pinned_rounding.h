#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/matrix_view.h"
#include "quant/algo/column_rounding.h"
#include "quant/algo/outliers.h"

namespace nibble::quant {

/// A rounding of a weight some places of which are kept beside the codes: those decode to the weight itself, whatever
/// the feedback has made of it by then, so that it goes on to other inputs; their code is that of 0, as
/// mask_outliers() makes it.
class PinnedRounding final : public ColumnRounding {
 public:
  /// `inner` rounds everything else; its grids do not adapt. w (out, in) and `outliers` in it. inner and w must outlive
  /// the object.
  PinnedRounding(const ColumnRounding& inner, MatrixView<const float> w, const Outliers& outliers);

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
             float* decoded) const override;
  void decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
              float* decoded) const override;

 private:
  // The outliers' rows in `column` from first_row on, `count` rows of them.
  std::span<const std::size_t> rows_of(std::size_t column, std::size_t first_row, std::size_t count) const;

  const ColumnRounding& inner_;
  MatrixView<const float> w_;
  std::vector<std::vector<std::size_t>> rows_;  // by column, ascending
};

}  // namespace nibble::quant
