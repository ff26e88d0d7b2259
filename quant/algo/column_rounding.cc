#include "quant/algo/column_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/checked_math.h"
#include "core/error.h"
#include "quant/algo/assign_kernels.h"

namespace nibble::quant {
namespace {

// Some rows of another rounding whose rows do not depend on each other.
template <class Code>
class RowsOf final : public BasicColumnRounding<Code> {
 public:
  RowsOf(BasicColumnRounding<Code>& all, std::size_t first) : all_(all), first_(first) {}

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, Code* codes,
             float* decoded) const override {
    all_.round(column, first_ + first_row, values, codes, decoded);
  }
  void decode(std::size_t column, std::size_t first_row, std::span<const Code> codes, float* decoded) const override {
    all_.decode(column, first_ + first_row, codes, decoded);
  }
  std::size_t adaptive_block() const override { return all_.adaptive_block(); }
  void adapt(std::size_t block, std::size_t first_row, MatrixView<const float> current) override {
    all_.adapt(block, first_ + first_row, current);
  }

 private:
  BasicColumnRounding<Code>& all_;
  std::size_t first_;
};

}  // namespace

template <class Code>
std::unique_ptr<BasicColumnRounding<Code>> BasicColumnRounding<Code>::rows(std::size_t first, std::size_t /*count*/,
                                                                           MatrixView<const Code> /*codes*/,
                                                                           std::span<const float> /*weights*/) {
  return std::make_unique<RowsOf<Code>>(*this, first);
}

template <class Code>
void BasicColumnRounding<Code>::improve(std::size_t column, CoupledColumn& loss, std::span<Code> codes,
                                        std::span<float> values) const {
  for (std::size_t row = 0; row < values.size(); ++row) {
    const double curvature = loss.coupling(row, row);
    if (!(curvature > 0.0)) continue;
    // The minimum of (1) in this row; on a grid its nearest value is the best one.
    const auto target = static_cast<float>(static_cast<double>(values[row]) - loss.slope(row) / curvature);
    Code code{};
    float decoded = 0.0f;
    round(column, row, {&target, 1}, &code, &decoded);
    codes[row] = code;
    if (decoded == values[row]) continue;
    loss.move(row, decoded - values[row]);
    values[row] = decoded;
  }
}

template class BasicColumnRounding<std::uint8_t>;
template class BasicColumnRounding<std::uint16_t>;

PaletteRounding::PaletteRounding(MatrixView<const float> palettes, std::size_t group_rows,
                                 std::span<const float> scales)
    : palettes_(palettes), group_rows_(group_rows), scales_(scales) {
  const std::size_t k = palettes.cols();
  NIBBLE_REQUIRE(palettes.rows() >= 1 && k >= 1 && k <= 256, InvalidArgument,
                 "PaletteRounding: expected palettes of 1 to 256 entries, got ({}, {})", palettes.rows(), k);
  while (std::size_t{1} << levels_ < k) ++levels_;
  bounds_ = Matrix<float>(palettes.rows(), std::size_t{1} << levels_);
  for (std::size_t g = 0; g < palettes.rows(); ++g) {
    const auto entries = palettes.row(g);
    for (std::size_t c = 0; c < k; ++c)
      NIBBLE_REQUIRE(std::isfinite(entries[c]) && (c == 0 || entries[c - 1] <= entries[c]), InvalidArgument,
                     "PaletteRounding: entries must be finite and ascending; entry {} of palette {} is {}", c, g,
                     entries[c]);
    const auto bounds = bounds_.row(g);
    std::fill(bounds.begin(), bounds.end(), std::numeric_limits<float>::infinity());
    for (std::size_t c = 0; c + 1 < k && entries[c] < entries[k - 1]; ++c)
      bounds[c] = assign_kernels::boundary_between(entries[c], entries[c + 1]);
  }
}

void PaletteRounding::round(std::size_t /*column*/, std::size_t first_row, std::span<const float> values,
                            std::uint8_t* codes, float* decoded) const {
  for (std::size_t r = 0; r < values.size(); ++r) {
    const std::size_t group = group_of(first_row + r);
    const float scale = scale_of(first_row + r);
    const float value = scale == 0.0f ? 0.0f : values[r] / scale;
    const float* bounds = bounds_.row(group).data();
    std::size_t code = 0;
    for (std::size_t half = bounds_.cols() / 2; half > 0; half /= 2) code += bounds[code + half - 1] < value ? half : 0;
    codes[r] = static_cast<std::uint8_t>(code);
    decoded[r] = scale * palettes_(group, code);
  }
}

void PaletteRounding::decode(std::size_t /*column*/, std::size_t first_row, std::span<const std::uint8_t> codes,
                             float* decoded) const {
  for (std::size_t r = 0; r < codes.size(); ++r)
    decoded[r] = scale_of(first_row + r) * palettes_(group_of(first_row + r), codes[r]);
}

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
