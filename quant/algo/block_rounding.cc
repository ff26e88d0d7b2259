#include "quant/algo/block_rounding.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/checked_math.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/isa.h"
#include "core/thread_pool.h"
#include "quant/algo/finite.h"
#include "quant/algo/rounding_kernels.h"

namespace nibble::quant {
namespace rounding_kernels {

void block_extremes_scalar(const float* row, std::size_t count, std::size_t block, float* low, float* high) {
  for (std::size_t begin = 0; begin < count; begin += block) {
    const auto [least, largest] = std::minmax_element(row + begin, row + std::min(begin + block, count));
    *low++ = *least;
    *high++ = *largest;
  }
}

void round_row_scalar(const float* row, std::size_t count, std::size_t block, const float* scales, const float* zeros,
                      float top, std::uint8_t* codes) {
  for (std::size_t begin = 0; begin < count; begin += block, ++scales, ++zeros) {
    for (std::size_t j = begin; j < std::min(begin + block, count); ++j) {
      const float rounded = *scales == 0.0f ? 0.0f : std::nearbyint(row[j] / *scales);
      codes[j] = static_cast<std::uint8_t>(std::clamp(rounded + *zeros, 0.0f, top));
    }
  }
}

}  // namespace rounding_kernels

namespace {

namespace kernels = rounding_kernels;
constexpr std::size_t kRowTile = 16;

struct Kernels {
  decltype(&kernels::block_extremes_scalar) block_extremes;
  decltype(&kernels::round_row_scalar) round_row;
};

Kernels choose_kernels() {
#if NIBBLE_HAVE_X86_AVX512
  if (active_isa() >= Isa::kAvx512) return {kernels::block_extremes_avx512, kernels::round_row_avx512};
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (active_isa() >= Isa::kAvx2) return {kernels::block_extremes_avx2, kernels::round_row_avx2};
#endif
  return {kernels::block_extremes_scalar, kernels::round_row_scalar};
}

/// Block lengths, levels and the rule, as numbers.
struct Grid {
  std::size_t block;
  float half, top;  ///< 2^(bits-1), 2^bits - 1
  BlockScale rule;
};

/// The first value of largest magnitude in a block whose least and largest values are known.
float extreme(std::span<const float> block, float low, float high) {
  if (high != -low) return high > -low ? high : low;
  return *std::find_if(block.begin(), block.end(), [&](float value) { return value == low || value == high; });
}

float ideal_scale(std::span<const float> block, float low, float high, const Grid& grid) {
  const float magnitude = std::max(high, -low);
  switch (grid.rule) {
    case BlockScale::kExtreme:
      return extreme(block, low, high) / -grid.half;
    case BlockScale::kAbsmax:
      return magnitude / (grid.half - 1.0f);
    case BlockScale::kAbsmaxHalf:
      return magnitude / (grid.half - 0.5f);
    case BlockScale::kMinmax:
      return (std::max(high, 0.0f) - std::min(low, 0.0f)) / grid.top;
  }
  throw InvalidArgument("round_blocks: unknown scale rule");
}

/// What one thread needs for a row.
struct Buffers {
  std::vector<float> low, high, zeros;
  std::vector<std::uint16_t> halves;
};

/// Scales of one row, rounded to float16.
void find_scales(std::span<const float> row, std::size_t row_index, const Grid& grid, Buffers& buffers,
                 std::span<float> scales) {
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const auto block = row.subspan(b * grid.block, std::min(grid.block, row.size() - b * grid.block));
    scales[b] = ideal_scale(block, buffers.low[b], buffers.high[b], grid);
  }
  buffers.halves.resize(scales.size());
  convert_to_f16(scales, buffers.halves.data());
  for (std::size_t b = 0; b < scales.size(); ++b) {
    constexpr std::uint16_t kMagnitude = 0x7FFF, kInfinity = 0x7C00;
    const std::uint16_t magnitude = buffers.halves[b] & kMagnitude;
    NIBBLE_REQUIRE(magnitude < kInfinity, NumericalError,
                   "round_blocks: the scale {} of the block at row {}, column {} is beyond float16 (65504)", scales[b],
                   row_index, b * grid.block);
    if (magnitude == 0) buffers.halves[b] = 0;  // no -0
  }
  convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(buffers.halves.data()), scales.size(), scales.data());
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
  const Kernels chosen = choose_kernels();

  parallel_for_tiles(w.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    Buffers buffers;
    buffers.low.resize(blocks);
    buffers.high.resize(blocks);
    buffers.zeros.assign(blocks, grid.half);
    for (std::size_t r = begin; r < end; ++r) {
      const auto row = w.row(r);
      if (const auto bad = first_not_finite(row))
        throw NumericalError(fmt::format("round_blocks: the weight at row {}, column {} is {}", r, *bad, row[*bad]));
      const auto scales = result.scales.row(r);
      chosen.block_extremes(row.data(), row.size(), block, buffers.low.data(), buffers.high.data());
      find_scales(row, r, grid, buffers, scales);
      if (zero_points) {
        for (std::size_t b = 0; b < blocks; ++b) {
          const float zero = scales[b] == 0.0f ? 0.0f : std::nearbyint(-std::min(buffers.low[b], 0.0f) / scales[b]);
          buffers.zeros[b] = std::min(zero, grid.top);
          result.zeros(r, b) = static_cast<std::uint8_t>(buffers.zeros[b]);
        }
      }
      chosen.round_row(row.data(), row.size(), block, scales.data(), buffers.zeros.data(), grid.top,
                       result.codes.row(r).data());
    }
  });
  return result;
}

}  // namespace nibble::quant
