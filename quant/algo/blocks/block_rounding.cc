#include "quant/algo/blocks/block_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "quant/algo/rounding/block_kernels.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kRoundingRowTile = 16;
constexpr float kRounder = 0x1.8p23f;  // added and taken away again it rounds half to even

/// Block lengths, levels and the rule, as numbers.
struct Grid {
  std::size_t block;
  float half, top;  ///< 2^(bits-1), 2^bits - 1
  BlockScale rule;
};

/// What one thread needs for a row.
struct Buffers {
  std::vector<float> low, high, zeros;
  std::vector<std::uint16_t> halves;
};

/// Of each block the value of largest magnitude, the first of them.
void find_extremes(std::span<const float> row, std::size_t block, const Buffers& buffers, std::span<float> extremes) {
  const float *low = buffers.low.data(), *high = buffers.high.data();
  unsigned ambiguous = 0;  // how many; without a branch, as signs of extremes come at random
  for (std::size_t b = 0; b < extremes.size(); ++b) {
    extremes[b] = high[b] > -low[b] ? high[b] : low[b];
    ambiguous += high[b] == -low[b] ? 1u : 0u;
  }
  for (std::size_t b = 0; b < extremes.size() && ambiguous > 0; ++b) {
    if (buffers.high[b] != -buffers.low[b]) continue;
    std::size_t j = b * block;
    while (std::abs(row[j]) != buffers.high[b]) ++j;
    extremes[b] = row[j];
  }
}

/// Scales of one row before rounding.
void find_ideal_scales(std::span<const float> row, const Grid& grid, const Buffers& buffers, std::span<float> scales) {
  if (grid.rule == BlockScale::kExtreme) {
    find_extremes(row, grid.block, buffers, scales);
    for (float& scale : scales) scale /= -grid.half;
  } else if (grid.rule == BlockScale::kMinmax) {
    const float *low = buffers.low.data(), *high = buffers.high.data();
    for (std::size_t b = 0; b < scales.size(); ++b)
      scales[b] = ((high[b] > 0.0f ? high[b] : 0.0f) - (low[b] < 0.0f ? low[b] : 0.0f)) / grid.top;
  } else {
    const float steps = grid.half - (grid.rule == BlockScale::kAbsmax ? 1.0f : 0.5f);
    for (std::size_t b = 0; b < scales.size(); ++b) scales[b] = std::max(buffers.high[b], -buffers.low[b]) / steps;
  }
}

/// Scales of one row, rounded to float16.
void find_scales(std::span<const float> row, std::size_t row_index, const Grid& grid, Buffers& buffers,
                 std::span<float> scales) {
  find_ideal_scales(row, grid, buffers, scales);
  buffers.halves.resize(scales.size());
  convert_to_f16(scales, buffers.halves.data());
  std::uint16_t largest = 0;
  for (std::uint16_t& half : buffers.halves) {
    largest = std::max(largest, static_cast<std::uint16_t>(half & 0x7FFF));
    half = half == 0x8000 ? std::uint16_t{0} : half;  // no -0
  }
  constexpr std::uint16_t kInfinity = 0x7C00;
  for (std::size_t b = 0; b < scales.size() && largest >= kInfinity; ++b)
    NIBBLE_REQUIRE((buffers.halves[b] & 0x7FFF) < kInfinity, NumericalError,
                   "round_blocks: the scale {} of the block at row {}, column {} is beyond float16 (65504)", scales[b],
                   row_index, b * grid.block);
  convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(buffers.halves.data()), scales.size(), scales.data());
}

/// Zero points of one row, integers held as floats.
void find_zeros(std::span<const float> scales, const Grid& grid, Buffers& buffers) {
  const float *low = buffers.low.data(), *scale = scales.data();
  float* zeros = buffers.zeros.data();
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const float divisor = scale[b] == 0.0f ? std::numeric_limits<float>::infinity() : scale[b];
    const float below = low[b] < 0.0f ? -low[b] : 0.0f, zero = (below / divisor + kRounder) - kRounder;
    zeros[b] = zero < grid.top ? zero : grid.top;
  }
}

}  // namespace

BlockRounding round_blocks(MatrixView<const float> w, const BlockRoundingOptions& options) {
  NIBBLE_REQUIRE(options.bits >= 2 && options.bits <= 8, InvalidArgument, "round_blocks: expected 2 to 8 bits, got {}",
                 options.bits);
  NIBBLE_REQUIRE(!w.empty(), InvalidArgument, "round_blocks: the matrix ({}, {}) is empty", w.rows(), w.cols());
  const std::size_t block = options.block == 0 ? w.cols() : std::min(options.block, w.cols());
  const Grid grid{.block = block,
                  .half = static_cast<float>(1u << (options.bits - 1)),
                  .top = static_cast<float>((1u << options.bits) - 1),
                  .rule = options.scale};
  const std::size_t blocks = divide_up(w.cols(), block);
  const bool zero_points = options.scale == BlockScale::kMinmax;
  BlockRounding result;
  result.scales = Matrix<float>(w.rows(), blocks);
  if (zero_points) result.zeros = Matrix<std::uint8_t>(w.rows(), blocks);
  result.codes = Matrix<std::uint8_t>(w.rows(), w.cols());
  const block_kernels::Kernels kernels = block_kernels::active();

  parallel_for_tiles(w.rows(), kRoundingRowTile, [&](std::size_t begin, std::size_t end) {
    Buffers buffers;
    buffers.low.resize(blocks);
    buffers.high.resize(blocks);
    buffers.zeros.assign(blocks, grid.half);
    for (std::size_t r = begin; r < end; ++r) {
      const auto row = w.row(r);
      const auto scales = result.scales.row(r);
      if (!kernels.block_extremes(row.data(), row.size(), block, buffers.low.data(), buffers.high.data())) {
        const std::size_t bad = first_not_finite(row).value();
        throw NumericalError(fmt::format("round_blocks: the weight at row {}, column {} is {}", r, bad, row[bad]));
      }
      find_scales(row, r, grid, buffers, scales);
      if (zero_points) {
        find_zeros(scales, grid, buffers);
        std::transform(buffers.zeros.begin(), buffers.zeros.end(), result.zeros.row(r).begin(),
                       [](float zero) { return static_cast<std::uint8_t>(static_cast<int>(zero)); });
      }
      kernels.round_row(row.data(), row.size(), block, scales.data(), buffers.zeros.data(), grid.top,
                        result.codes.row(r).data());
    }
  });
  return result;
}

}  // namespace nibble::quant
