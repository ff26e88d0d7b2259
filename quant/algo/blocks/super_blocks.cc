#include "quant/algo/blocks/super_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/blocks/grid_columns.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kRowTile = 16;
constexpr int kLeastMultiple = -32, kMostMultiple = 31, kFewestOfLargest = 24;
constexpr int kStepBits = 6, kLeastExponent = -24;  // of a float16: it holds whole multiples of 2^-24 alone
constexpr double kLargest = 65504.0;

/// The nearest float16 of kStepBits significant bits.
double round_step(double step) {
  int exponent = 0;
  (void)std::frexp(step, &exponent);
  const int unit = std::max(exponent - kStepBits, kLeastExponent);
  return std::ldexp(std::nearbyint(std::ldexp(step, -unit)), unit);
}

int multiple_of(double scale, double step) {
  return static_cast<int>(std::clamp(std::nearbyint(scale / step), static_cast<double>(kLeastMultiple),
                                     static_cast<double>(kMostMultiple)));
}

/// One super-block of a row.
class SharedStep {
 public:
  SharedStep(std::span<float> scales, std::span<const double> costs) : scales_(scales), costs_(costs) {}

  void run() {
    const auto extreme = static_cast<double>(
        *std::max_element(scales_.begin(), scales_.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
    if (extreme == 0.0) return;
    for (int n = kFewestOfLargest; n <= -kLeastMultiple; ++n) {
      if (n <= kMostMultiple) consider(extreme / n);
      consider(extreme / -n);
    }
    // Scales so small that no step is above zero become zeros, as those below float16 do elsewhere; + 0 leaves no -0.
    for (float& scale : scales_)
      scale = best_ == 0.0 ? 0.0f : static_cast<float>(multiple_of(static_cast<double>(scale), best_) * best_) + 0.0f;
  }

 private:
  /// The step, and the one that is best for its multiples.
  void consider(double step) {
    step = round_step(step);
    keep_better(step);
    if (step == 0.0) return;
    double products = 0.0, squares = 0.0;
    for (std::size_t b = 0; b < scales_.size(); ++b) {
      const double k = multiple_of(static_cast<double>(scales_[b]), step);
      products += costs_[b] * k * static_cast<double>(scales_[b]);
      squares += costs_[b] * k * k;
    }
    if (squares > 0.0) keep_better(round_step(products / squares));
  }

  void keep_better(double step) {
    if (step == 0.0) return;
    double loss = 0.0;
    for (std::size_t b = 0; b < scales_.size(); ++b) {
      const double stored = multiple_of(static_cast<double>(scales_[b]), step) * step,
                   error = static_cast<double>(scales_[b]) - stored;
      if (std::abs(stored) > kLargest) return;
      loss += costs_[b] * error * error;
    }
    if (loss >= least_) return;
    least_ = loss;
    best_ = step;
  }

  std::span<float> scales_;
  std::span<const double> costs_;
  double best_ = 0.0, least_ = std::numeric_limits<double>::infinity();
};

/// `meaning(code)` is what a code stands for before the block's scale.
template <class Meaning>
void share(MatrixView<const float> w, std::size_t block, std::size_t super_block, Matrix<float>& scales,
           const Matrix<std::uint8_t>& codes, const Meaning& meaning) {
  NIBBLE_REQUIRE(block != 0 && super_block != 0 && super_block % block == 0, InvalidArgument,
                 "share_steps: super-blocks of {} inputs are no whole number of blocks of {}", super_block, block);
  const std::size_t blocks = divide_up(w.cols(), block), together = super_block / block;
  NIBBLE_REQUIRE(
      scales.rows() == w.rows() && scales.cols() == blocks && codes.rows() == w.rows() && codes.cols() == w.cols(),
      InvalidArgument, "share_steps: weights ({}, {}), scales ({}, {}), codes ({}, {})", w.rows(), w.cols(),
      scales.rows(), scales.cols(), codes.rows(), codes.cols());
  parallel_for_tiles(w.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    std::vector<double> costs(blocks);
    for (std::size_t i = begin; i < end; ++i) {
      std::fill(costs.begin(), costs.end(), 0.0);
      for (std::size_t j = 0; j < w.cols(); ++j) {
        const double q = meaning(codes(i, j));
        costs[j / block] += q * q;
      }
      for (std::size_t b = 0; b < blocks; b += together) {
        const std::size_t count = std::min(together, blocks - b);
        SharedStep(scales.row(i).subspan(b, count), std::span(costs).subspan(b, count)).run();
      }
    }
  });
}

/// The nearest codes of `rounding`.
void recode(MatrixView<const float> w, const ColumnRounding& rounding, Matrix<std::uint8_t>& codes) {
  parallel_for_tiles(w.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    std::vector<float> values(end - begin), decoded(end - begin);
    std::vector<std::uint8_t> column(end - begin);
    for (std::size_t j = 0; j < w.cols(); ++j) {
      for (std::size_t i = begin; i < end; ++i) values[i - begin] = w(i, j);
      rounding.round(j, begin, values, column.data(), decoded.data());
      for (std::size_t i = begin; i < end; ++i) codes(i, j) = column[i - begin];
    }
  });
}

}  // namespace

void share_steps(MatrixView<const float> w, const BlockRoundingOptions& options, std::size_t super_block,
                 BlockRounding& rounded) {
  NIBBLE_REQUIRE(rounded.zeros.size() == 0, InvalidArgument, "share_steps: expected blocks without zero points");
  const double zero = static_cast<double>(1u << (options.bits - 1));
  share(w, options.block, super_block, rounded.scales, rounded.codes,
        [zero](std::uint8_t code) { return static_cast<double>(code) - zero; });
  recode(w, GridRounding(rounded, options), rounded.codes);
}

void share_steps(MatrixView<const float> w, const BlockPaletteOptions& options, std::size_t super_block,
                 BlockPaletteRounding& rounded) {
  NIBBLE_REQUIRE(options.scale == ScaleType::kFloat16, InvalidArgument, "share_steps: expected scales of float16");
  share(w, options.block, super_block, rounded.scales, rounded.codes,
        [&](std::uint8_t code) { return static_cast<double>(rounded.palette[code]); });
  recode(w, BlockPaletteColumns(rounded, options, true), rounded.codes);
}

}  // namespace nibble::quant
