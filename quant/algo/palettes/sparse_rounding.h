#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/algo/palettes/outliers.h"
#include "quant/algo/rounding/column_rounding.h"

namespace nibble::quant {

/// A rounding of a weight some places of which are kept beside the codes, as differences in float16 from what their
/// code decodes to, which is that of 0: such a place takes whatever value it is given, to float16. So in error feedback
/// it takes what earlier inputs left to it, with no error of its own to pass on, and in coordinate descent the optimum
/// of its row (SpQR, arXiv:2306.03078, does the former).
class SparseRounding final : public ColumnRounding {
 public:
  /// `inner` rounds everything else; its grids do not adapt. round() writes to `kept.values`, each thread those of its
  /// rows. Both must outlive the object. Throws InvalidArgument.
  SparseRounding(const ColumnRounding& inner, std::size_t cols, SparseValues& kept);

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
             float* decoded) const override;
  void decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
              float* decoded) const override;

 private:
  struct Place {
    std::size_t row = 0, index = 0;  // of kept.values
  };
  // Those in `column` from first_row on, in `count` rows.
  std::span<const Place> places_of(std::size_t column, std::size_t first_row, std::size_t count) const;

  const ColumnRounding& inner_;
  SparseValues& kept_;
  std::vector<std::vector<Place>> places_;  // by column, rows ascending
};

}  // namespace nibble::quant
