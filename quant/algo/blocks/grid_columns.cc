#include "quant/algo/blocks/grid_columns.h"

#include <algorithm>
#include <utility>

namespace nibble::quant {

GridRounding::GridRounding(MatrixView<const float> w, const BlockRoundingOptions& options, bool static_groups)
    : options_(options),
      block_(options.block == 0 ? w.cols() : std::min(options.block, w.cols())),
      static_groups_(static_groups || block_ == w.cols()),
      half_(static_cast<float>(1u << (options.bits - 1))),
      top_(static_cast<float>((1u << options.bits) - 1)),
      grids_(round_blocks(w, options)) {
  options_.block = 0;
}

GridRounding::GridRounding(BlockRounding rounded, const BlockRoundingOptions& options)
    : options_(options),
      block_(options.block == 0 ? rounded.codes.cols() : std::min(options.block, rounded.codes.cols())),
      static_groups_(true),
      half_(static_cast<float>(1u << (options.bits - 1))),
      top_(static_cast<float>((1u << options.bits) - 1)),
      grids_(std::move(rounded)) {}

void GridRounding::round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint8_t* codes,
                         float* decoded) const {
  constexpr float kColumnRounder = 0x1.8p23f;  // added and taken away again it rounds half to even
  const std::size_t block = column / block_;
  for (std::size_t r = 0; r < values.size(); ++r) {
    const float scale = grids_.scales(first_row + r, block), zero = zero_of(first_row + r, block);
    const float steps = values[r] * (scale == 0.0f ? 0.0f : 1.0f / scale);  // as round_blocks()
    const float above = steps > -zero ? steps : -zero, inside = above < top_ - zero ? above : top_ - zero;
    const float rounded = (inside + kColumnRounder) - kColumnRounder;
    codes[r] = static_cast<std::uint8_t>(static_cast<int>(rounded + zero));
    decoded[r] = rounded * scale;
  }
}

void GridRounding::decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
                          float* decoded) const {
  const std::size_t block = column / block_;
  for (std::size_t r = 0; r < codes.size(); ++r)
    decoded[r] = (static_cast<float>(codes[r]) - zero_of(first_row + r, block)) * grids_.scales(first_row + r, block);
}

void GridRounding::adapt(std::size_t block, std::size_t first_row, MatrixView<const float> current) {
  const BlockRounding fresh = round_blocks(current, options_);
  for (std::size_t r = 0; r < current.rows(); ++r) {
    grids_.scales(first_row + r, block) = fresh.scales(r, 0);
    if (fresh.zeros.size() > 0) grids_.zeros(first_row + r, block) = fresh.zeros(r, 0);
  }
}

}  // namespace nibble::quant
