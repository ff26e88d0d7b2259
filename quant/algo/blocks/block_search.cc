#include "quant/algo/blocks/block_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "quant/algo/blocks/block_search_kernels.h"
#include "quant/algo/rounding/block_kernels.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

using namespace block_search_kernels;

constexpr std::size_t kPiece = 256;        // inputs summed one after the other; longer blocks in such pieces
constexpr std::size_t kMostZeroSteps = 4;  // zero points tried per scale
constexpr std::size_t kPolishRounds = 2;
constexpr int kLeastHalf = 1, kLargestHalf = 0x7BFF;  // the least and the largest positive float16

float rounded(float value) {  // half to even, for values below 2^22
  constexpr float kSearchRounder = 0x1.8p23f;
  return (value + kSearchRounder) - kSearchRounder;
}

/// What is searched, the same for all blocks.
struct SearchSpace {
  float half, top;
  bool both_signs, zero_point;
  std::vector<float> ratios;  ///< of scales to the rule's, descending
};

SearchSpace search_space(const BlockRoundingOptions& options) {
  const auto half = static_cast<float>(1u << (options.bits - 1));
  SearchSpace space{.half = half,
                    .top = 2.0f * half - 1.0f,
                    .both_signs = options.scale == BlockScale::kExtreme,
                    .zero_point = options.scale == BlockScale::kMinmax,
                    .ratios = {}};
  constexpr double kLargest = 1.2, kLeast = 0.2;
  // Every scale tried is improved in closed form: half of this spacing lowers errors by 0.05 % and takes twice as long.
  const double spacing = std::max(1.0 / (3.0 * static_cast<double>(half)), 1.0 / 128.0);
  for (double ratio = kLargest; ratio > kLeast; ratio *= 1.0 - spacing)
    space.ratios.push_back(static_cast<float>(ratio));
  return space;
}

/// The metric: Σ f e² with weights of its own for each block.
class WeightedMetric {
 public:
  explicit WeightedMetric(MatrixView<const float> weights) : weights_(weights), sums_(active().weighted_sums) {}

  void load(std::size_t first_row, std::size_t rows, std::size_t column, std::size_t count) {
    lanes_.assign(count * kLanes, weights_.empty() ? 1.0f : 0.0f);
    if (weights_.empty()) return;
    for (std::size_t lane = 0; lane < rows; ++lane)
      for (std::size_t j = 0; j < count; ++j) lanes_[j * kLanes + lane] = weights_(first_row + lane, column + j);
  }
  static constexpr std::size_t kMostInputs = kPiece;
  Sums sums(const float* values, std::size_t begin, std::size_t count, const Grids& grids) const {
    return sums_(values + begin * kLanes, lanes_.data() + begin * kLanes, count, grids);
  }

 private:
  MatrixView<const float> weights_;
  decltype(Kernels::weighted_sums) sums_;
  std::vector<float> lanes_;  // (count, kLanes)
};

/// The metric: e H eᵀ within pieces of a block.
class HessianMetric {
 public:
  explicit HessianMetric(MatrixView<const float> h) : h_(h), sums_(active().hessian_sums) {}

  void load(std::size_t /*first_row*/, std::size_t /*rows*/, std::size_t column, std::size_t /*count*/) {
    column_ = column;
  }
  static constexpr std::size_t kMostInputs = kMostHessianInputs;
  Sums sums(const float* values, std::size_t begin, std::size_t count, const Grids& grids) const {
    const std::size_t at = column_ + begin;
    return sums_(values + begin * kLanes, h_.data() + at * h_.stride() + at, h_.stride(), count, grids);
  }

 private:
  MatrixView<const float> h_;
  decltype(Kernels::hessian_sums) sums_;
  std::size_t column_ = 0;
};

/// The search of one block in each of sixteen rows.
template <class Metric>
class BatchSearch {
 public:
  BatchSearch(MatrixView<const float> w, const SearchSpace& space, Metric metric)
      : w_(w), space_(space), metric_(std::move(metric)) {}

  /// Improves the scales and zeros of rows first_row … of block `block` in `result`.
  void run(BlockRounding& result, std::size_t first_row, std::size_t rows, std::size_t block, std::size_t length) {
    const std::size_t column = block * length;
    load(first_row, rows, column, std::min(length, w_.cols() - column));
    Lanes rule{}, zero;
    zero.fill(space_.half);
    for (std::size_t lane = 0; lane < rows; ++lane) {
      rule[lane] = result.scales(first_row + lane, block);
      if (space_.zero_point) zero[lane] = static_cast<float>(result.zeros(first_row + lane, block));
    }
    const Lanes ruled = errors_of(grids(rule, zero));
    std::fill_n(best_.error, kLanes, std::numeric_limits<float>::infinity());
    try_grid(rule);
    polish();
    Lanes stored{};
    const Lanes error = round_to_stored(stored);
    for (std::size_t lane = 0; lane < rows; ++lane) {
      if (!(error[lane] < ruled[lane])) continue;
      result.scales(first_row + lane, block) = stored[lane];
      if (space_.zero_point) result.zeros(first_row + lane, block) = static_cast<std::uint8_t>(-best_.low[lane]);
    }
  }

 private:
  using Lanes = std::array<float, kLanes>;

  void load(std::size_t first_row, std::size_t rows, std::size_t column, std::size_t count) {
    count_ = count;
    values_.assign(count * kLanes, 0.0f);
    low_.fill(0.0f);
    high_.fill(0.0f);
    for (std::size_t lane = 0; lane < rows; ++lane) {
      const auto row = w_.row(first_row + lane).subspan(column, count);
      for (std::size_t j = 0; j < count; ++j) {
        values_[j * kLanes + lane] = row[j];
        low_[lane] = std::min(low_[lane], row[j]);
        high_[lane] = std::max(high_[lane], row[j]);
      }
    }
    metric_.load(first_row, rows, column, count);
  }

  Grids grids(const Lanes& scale, const Lanes& zero) const {
    Grids grids;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      grids.scale[lane] = scale[lane];
      grids.low[lane] = -zero[lane];
      grids.high[lane] = space_.top - zero[lane];
    }
    return grids;
  }

  /// The best grids so far, their zero points moved by `step`.
  Grids best_grids(float step = 0.0f) const {
    Lanes scale, zero;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      scale[lane] = best_.scale[lane];
      zero[lane] = std::clamp(step - best_.low[lane], 0.0f, space_.top);
    }
    return grids(scale, zero);
  }

  Sums sums_of(const Grids& grids) const {
    Sums sums = metric_.sums(values_.data(), 0, std::min(Metric::kMostInputs, count_), grids);
    for (std::size_t begin = Metric::kMostInputs; begin < count_; begin += Metric::kMostInputs) {
      const Sums piece = metric_.sums(values_.data(), begin, std::min(Metric::kMostInputs, count_ - begin), grids);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums.ee[lane] += piece.ee[lane];
        sums.eq[lane] += piece.eq[lane];
        sums.qq[lane] += piece.qq[lane];
      }
    }
    return sums;
  }

  Lanes errors_of(const Grids& grids) const { return std::to_array(sums_of(grids).ee); }

  void consider(const Grids& grids) { improve_(grids, sums_of(grids), best_); }

  void try_grid(const Lanes& rule) {
    Lanes zero;
    zero.fill(space_.half);
    Grids candidate = grids(rule, zero);
    for (const float ratio : space_.ratios) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) candidate.scale[lane] = ratio * rule[lane];
      if (space_.zero_point) {
        try_zeros(std::to_array(candidate.scale));
        continue;
      }
      consider(candidate);
      if (!space_.both_signs) continue;
      for (float& scale : candidate.scale) scale = -scale;
      consider(candidate);
    }
  }

  /// Zero points from where the grid ends at the least value to where it ends at the largest.
  void try_zeros(const Lanes& scale) {
    Lanes first{}, last{};
    float widest = 0.0f;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (scale[lane] == 0.0f) continue;
      const float a = rounded(-low_[lane] / scale[lane]), b = rounded(space_.top - high_[lane] / scale[lane]);
      first[lane] = std::clamp(std::min(a, b), 0.0f, space_.top);
      last[lane] = std::clamp(std::max(a, b), 0.0f, space_.top);
      widest = std::max(widest, last[lane] - first[lane]);
    }
    const std::size_t steps = std::min(kMostZeroSteps, static_cast<std::size_t>(widest) + 1);
    for (std::size_t step = 0; step < steps; ++step) {
      const float share = steps == 1 ? 0.0f : static_cast<float>(step) / static_cast<float>(steps - 1);
      Lanes zero;
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        zero[lane] = rounded(first[lane] + share * (last[lane] - first[lane]));
      consider(grids(scale, zero));
    }
  }

  /// Alternates codes and scales, and looks at the neighbouring zero points.
  void polish() {
    for (std::size_t round = 0; round < kPolishRounds; ++round) {
      consider(best_grids());
      if (!space_.zero_point) continue;
      consider(best_grids(-1.0f));
      consider(best_grids(1.0f));
    }
  }

  /// The best scales as float16, whichever neighbour loses least, and what they lose.
  Lanes round_to_stored(Lanes& stored) const {
    Lanes error;
    error.fill(std::numeric_limits<float>::infinity());
    Grids candidate = best_grids();
    for (const int step : {0, -1, 1}) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const int half = std::clamp(f32_to_f16(std::abs(best_.scale[lane])) + step, kLeastHalf, kLargestHalf);
        candidate.scale[lane] = std::copysign(f16_to_f32(static_cast<std::uint16_t>(half)), best_.scale[lane]);
      }
      const Lanes errors = errors_of(candidate);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (!(errors[lane] < error[lane])) continue;
        error[lane] = errors[lane];
        stored[lane] = candidate.scale[lane];
      }
    }
    return error;
  }

  MatrixView<const float> w_;
  const SearchSpace& space_;
  Metric metric_;
  decltype(Kernels::improve) improve_ = active().improve;
  std::size_t count_ = 0;
  std::vector<float> values_;  // (count, kLanes)
  Lanes low_, high_;           // least and largest value, 0 among them
  Best best_;
};

void assign_nearest(MatrixView<const float> w, std::size_t row, std::size_t block, float top, float half,
                    BlockRounding& result) {
  std::vector<float> zeros(result.scales.cols(), half);
  if (result.zeros.size() > 0) std::copy(result.zeros.row(row).begin(), result.zeros.row(row).end(), zeros.begin());
  block_kernels::active().round_row(w.row(row).data(), w.cols(), block, result.scales.row(row).data(), zeros.data(),
                                    top, result.codes.row(row).data());
}

template <class Metric>
BlockRounding search(MatrixView<const float> w, const BlockRoundingOptions& options, const Metric& metric) {
  BlockRounding result = round_blocks(w, options);
  const SearchSpace space = search_space(options);
  const std::size_t block = options.block == 0 ? w.cols() : std::min(options.block, w.cols());
  parallel_for_tiles(w.rows(), kLanes, [&](std::size_t begin, std::size_t end) {
    BatchSearch<Metric> batch(w, space, metric);
    for (std::size_t b = 0; b < result.scales.cols(); ++b) batch.run(result, begin, end - begin, b, block);
    for (std::size_t row = begin; row < end; ++row) assign_nearest(w, row, block, space.top, space.half, result);
  });
  return result;
}

}  // namespace

BlockRounding search_blocks(MatrixView<const float> w, MatrixView<const float> weights,
                            const BlockRoundingOptions& options) {
  NIBBLE_REQUIRE(weights.empty() || (weights.rows() == w.rows() && weights.cols() == w.cols()), InvalidArgument,
                 "search_blocks: values are ({}, {}) but weights ({}, {})", w.rows(), w.cols(), weights.rows(),
                 weights.cols());
  for (std::size_t i = 0; i < weights.rows(); ++i)
    for (std::size_t j = 0; j < weights.cols(); ++j)
      NIBBLE_REQUIRE(weights(i, j) >= 0.0f && std::isfinite(weights(i, j)), InvalidArgument,
                     "search_blocks: the weight {} of row {}, column {} must be finite and not negative", weights(i, j),
                     i, j);
  return search(w, options, WeightedMetric(weights));
}

BlockRounding search_blocks_hessian(MatrixView<const float> w, MatrixView<const float> h,
                                    const BlockRoundingOptions& options) {
  NIBBLE_REQUIRE(h.rows() == w.cols() && h.cols() == w.cols(), InvalidArgument,
                 "search_blocks: a weight ({}, {}) needs a Hessian ({}, {}), got ({}, {})", w.rows(), w.cols(),
                 w.cols(), w.cols(), h.rows(), h.cols());
  require_finite_hessian(h);
  return search(w, options, HessianMetric(h));
}

}  // namespace nibble::quant
