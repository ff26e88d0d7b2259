#include "quant/algo/blocks/block_palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "quant/algo/blocks/palette_block_kernels.h"
#include "quant/algo/kmeans/assign_kernels.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace block_palette {
namespace {

using namespace palette_block_kernels;
using Lanes = std::array<float, kLanes>;

constexpr double kLeastRoundGain = 1e-6;

/// What all blocks share.
struct Shape {
  std::size_t block = 0, blocks = 0;
  ScaleType type = ScaleType::kFloat16;
  float tensor_scale = 1.0f;
};

/// 1 / scale; 0 where that is not finite: what is divided by such a scale counts as 0.
float inverse_of(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

/// bounds[c]: values above it are nearer to what follows entry c and differs from it. The last ones are infinite.
std::vector<float> bounds_of(std::span<const float> palette) {
  std::vector<float> bounds(palette.size(), std::numeric_limits<float>::infinity());
  for (std::size_t c = palette.size() - 1; c-- > 0;)
    bounds[c] =
        palette[c] < palette[c + 1] ? assign_kernels::boundary_between(palette[c], palette[c + 1]) : bounds[c + 1];
  return bounds;
}

/// The entry of largest magnitude, of two alike the positive one.
float main_entry(std::span<const float> palette) {
  return -palette.front() > palette.back() ? palette.front() : palette.back();
}

/// The value of largest magnitude, the first of them.
float extreme_of(std::span<const float> values) {
  return *std::max_element(values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
}

/// The largest scale worth trying, as a multiple of the ideal of the rule: a tenth above that with which the largest
/// value is the palette's second largest entry of its sign.
float largest_ratio(std::span<const float> palette) {
  const float main = std::abs(main_entry(palette));
  const float below = std::min(std::abs(palette[1]), std::abs(palette[palette.size() - 2]));
  return below > 0.0f ? std::clamp(1.1f * main / below, 1.25f, 2.0f) : 2.0f;
}

/// A block's scale by the rule, as stored; not yet rounded to what kFloat16 can hold.
float ruled_scale(float extreme, float entry, const Shape& shape) {
  const float largest = std::abs(extreme);
  switch (shape.type) {
    case ScaleType::kE8M0:
      return largest == 0.0f ? round_scale(0.0f, shape.type)
                             : round_scale(std::scalbn(1.0f, std::ilogb(largest) - std::ilogb(entry)), shape.type);
    case ScaleType::kE4M3:
      return round_scale(largest / (std::abs(entry) * shape.tensor_scale), shape.type);
    case ScaleType::kFloat16:
      break;
  }
  return extreme / entry;
}

float tensor_scale_of(MatrixView<const float> w, float entry) {
  float largest = 0.0f;
  for (std::size_t i = 0; i < w.rows(); ++i) largest = std::max(largest, std::abs(extreme_of(w.row(i))));
  const float scale = largest / (std::abs(entry) * largest_scale(ScaleType::kE4M3));
  return scale > 0.0f ? scale : 1.0f;
}

Matrix<float> ruled_scales(MatrixView<const float> w, float entry, const Shape& shape) {
  Matrix<float> scales(w.rows(), shape.blocks);
  parallel_for_tiles(w.rows(), kLanes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (const auto bad = first_not_finite(w.row(i)))
        throw NumericalError(
            fmt::format("round_block_palette: the weight at row {}, column {} is {}", i, *bad, w(i, *bad)));
      for (std::size_t b = 0; b < shape.blocks; ++b) {
        const std::size_t column = b * shape.block, count = std::min(shape.block, w.cols() - column);
        const float scale = ruled_scale(extreme_of(w.row(i).subspan(column, count)), entry, shape);
        NIBBLE_REQUIRE(shape.type != ScaleType::kFloat16 || std::isfinite(round_to_f16(scale)), NumericalError,
                       "round_block_palette: the scale {} of the block at row {}, column {} is beyond float16 (65504)",
                       scale, i, column);
        scales(i, b) = round_scale(scale, shape.type);
      }
    }
  });
  return scales;
}

/// The metric: Σ f e² with weights of its own for each block.
class WeightedError {
 public:
  static constexpr std::size_t kMostInputs = 1024;
  explicit WeightedError(MatrixView<const float> weights) : weights_(weights), sums_(active().weighted_sums) {}

  void load(std::size_t first_row, std::size_t rows, std::size_t column, std::size_t count) {
    lanes_.assign(count * kLanes, weights_.empty() ? 1.0f : 0.0f);
    if (weights_.empty()) return;
    for (std::size_t lane = 0; lane < rows; ++lane)
      for (std::size_t j = 0; j < count; ++j) lanes_[j * kLanes + lane] = weights_(first_row + lane, column + j);
  }
  Sums sums(const float* values, std::size_t begin, std::size_t count, const Lanes& scales,
            const Entries& entries) const {
    return sums_(values + begin * kLanes, lanes_.data() + begin * kLanes, count, scales.data(), entries);
  }

 private:
  MatrixView<const float> weights_;
  decltype(Kernels::weighted_sums) sums_;
  std::vector<float> lanes_;  // (count, kLanes)
};

/// The metric: e H eᵀ within pieces of a block.
class HessianError {
 public:
  static constexpr std::size_t kMostInputs = kMostHessianInputs;
  explicit HessianError(MatrixView<const float> h) : h_(h), sums_(active().hessian_sums) {}

  void load(std::size_t /*first_row*/, std::size_t /*rows*/, std::size_t column, std::size_t /*count*/) {
    column_ = column;
  }
  Sums sums(const float* values, std::size_t begin, std::size_t count, const Lanes& scales,
            const Entries& entries) const {
    const std::size_t at = column_ + begin;
    return sums_(values + begin * kLanes, h_.data() + at * h_.stride() + at, h_.stride(), count, scales.data(),
                 entries);
  }

 private:
  MatrixView<const float> h_;
  decltype(Kernels::hessian_sums) sums_;
  std::size_t column_ = 0;
};

/// The search of the scale of one block in each of sixteen rows.
template <class Metric>
class ScaleSearcher {
 public:
  ScaleSearcher(MatrixView<const float> w, std::span<const float> palette, const Shape& shape, Metric metric)
      : w_(w),
        shape_(shape),
        metric_(std::move(metric)),
        main_(main_entry(palette)),
        largest_ratio_(block_palette::largest_ratio(palette)) {
    const std::vector<float> bounds = bounds_of(palette);
    entries_.count = palette.size();
    std::copy(palette.begin(), palette.end(), entries_.value);
    std::copy(bounds.begin(), bounds.end(), entries_.bound);
  }

  /// Improves the scales of rows first_row … of block `block`.
  void run(Matrix<float>& scales, std::size_t first_row, std::size_t rows, std::size_t block) {
    load(first_row, rows, block * shape_.block, std::min(shape_.block, w_.cols() - block * shape_.block));
    best_.fill(0.0f);
    for (std::size_t lane = 0; lane < rows; ++lane) best_[lane] = scales(first_row + lane, block);
    error_ = errors_of(best_);
    shape_.type == ScaleType::kFloat16 ? search_halves() : search_stored();
    for (std::size_t lane = 0; lane < rows; ++lane) scales(first_row + lane, block) = best_[lane];
  }

 private:
  static constexpr float kLeastRatio = 0.2f;

  void load(std::size_t first_row, std::size_t rows, std::size_t column, std::size_t count) {
    count_ = count;
    values_.assign(count * kLanes, 0.0f);
    ideal_.fill(0.0f);
    for (std::size_t lane = 0; lane < rows; ++lane) {
      const auto row = w_.row(first_row + lane).subspan(column, count);
      for (std::size_t j = 0; j < count; ++j) values_[j * kLanes + lane] = row[j];
      ideal_[lane] = extreme_of(row) / main_;
    }
    metric_.load(first_row, rows, column, count);
  }

  Sums sums_of(const Lanes& stored) const {
    Lanes scales;
    for (std::size_t lane = 0; lane < kLanes; ++lane) scales[lane] = stored[lane] * shape_.tensor_scale;
    Sums sums = metric_.sums(values_.data(), 0, std::min(Metric::kMostInputs, count_), scales, entries_);
    for (std::size_t begin = Metric::kMostInputs; begin < count_; begin += Metric::kMostInputs) {
      const Sums piece =
          metric_.sums(values_.data(), begin, std::min(Metric::kMostInputs, count_ - begin), scales, entries_);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums.ee[lane] += piece.ee[lane];
        sums.eq[lane] += piece.eq[lane];
        sums.qq[lane] += piece.qq[lane];
      }
    }
    return sums;
  }
  Lanes errors_of(const Lanes& stored) const { return std::to_array(sums_of(stored).ee); }

  void keep_better(const Lanes& candidate) {
    const Lanes errors = errors_of(candidate);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (!(errors[lane] < error_[lane])) continue;
      error_[lane] = errors[lane];
      best_[lane] = candidate[lane];
    }
  }

  /// All scales that the type holds within the range.
  void search_stored() {
    const bool octaves = shape_.type == ScaleType::kE8M0;
    const float most = octaves ? 2.0f : largest_ratio_;  // whatever the magnitude, the next power of two above it
    const int steps = octaves ? 4 : 28;                  // to a fifth: 3.3 octaves at most, of 1 and 8 steps
    std::array<int, kLanes> first;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      first[lane] = scale_bits(std::abs(ideal_[lane]) * most / shape_.tensor_scale, shape_.type);
    Lanes candidate;
    for (int step = 0; step < steps; ++step) {
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        candidate[lane] = scale_of_bits(static_cast<std::uint16_t>(std::max(first[lane] - step, 0)), shape_.type);
      keep_better(candidate);
    }
  }

  /// What the codes of `scales` would lose with the best scale for them; the best of these is remembered.
  void improve(const Lanes& scales, Lanes& found, Lanes& loss) const {
    const Sums sums = sums_of(scales);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      float shift = sums.qq[lane] > 0.0f ? sums.eq[lane] / sums.qq[lane] : 0.0f;
      if ((scales[lane] + shift) * scales[lane] <= 0.0f) shift = 0.0f;
      const float error = sums.ee[lane] - shift * sums.eq[lane];
      if (!(error < loss[lane])) continue;
      loss[lane] = error;
      found[lane] = scales[lane] + shift;
    }
  }

  void search_halves() {
    Lanes found{}, loss, candidate;
    loss.fill(std::numeric_limits<float>::infinity());
    const float spacing = std::max(1.0f / (1.5f * static_cast<float>(entries_.count)), 1.0f / 128.0f);
    for (float ratio = largest_ratio_; ratio > kLeastRatio; ratio *= 1.0f - spacing)
      for (const float sign : {1.0f, -1.0f}) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) candidate[lane] = sign * ratio * ideal_[lane];
        improve(candidate, found, loss);
      }
    constexpr int kPolishRounds = 2;
    for (int round = 0; round < kPolishRounds; ++round) {
      candidate = found;
      improve(candidate, found, loss);
    }
    constexpr int kLeastHalf = 1, kMostHalf = 0x7BFF;
    for (const int step : {0, -1, 1}) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const int half = std::clamp(f32_to_f16(std::abs(found[lane])) + step, kLeastHalf, kMostHalf);
        candidate[lane] = std::copysign(f16_to_f32(static_cast<std::uint16_t>(half)), found[lane]);
      }
      keep_better(candidate);
    }
  }

  MatrixView<const float> w_;
  const Shape& shape_;
  Metric metric_;
  float main_, largest_ratio_;
  Entries entries_;
  std::size_t count_ = 0;
  std::vector<float> values_;  // (count, kLanes)
  Lanes ideal_;                // the rule's scales before anything is rounded, times tensor_scale
  Lanes best_, error_;
};

template <class Metric>
void search_scales(MatrixView<const float> w, std::span<const float> palette, const Shape& shape, const Metric& metric,
                   Matrix<float>& scales) {
  parallel_for_tiles(w.rows(), kLanes, [&](std::size_t begin, std::size_t end) {
    ScaleSearcher<Metric> search(w, palette, shape, metric);
    for (std::size_t b = 0; b < shape.blocks; ++b) search.run(scales, begin, end - begin, b);
  });
}

/// w / s and f s², of which a learned palette is fitted: entries exact in float16.
std::vector<float> fit_entries(MatrixView<const float> w, MatrixView<const float> weights, const Shape& shape,
                               const Matrix<float>& scales, unsigned bits, double& gap) {
  Matrix<float> values(w.rows(), w.cols()), importance(w.rows(), w.cols());
  // Squares of scales are compared only: those of the largest are 1, so none is beyond float.
  float top = 0.0f;
  for (const float scale : scales.values()) top = std::max(top, std::abs(scale * shape.tensor_scale));
  parallel_for_tiles(w.rows(), kLanes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < w.cols(); ++j) {
        const float scale = scales(i, j / shape.block) * shape.tensor_scale, inverse = inverse_of(scale);
        values(i, j) = w(i, j) * inverse;
        const float share = scale / top;
        importance(i, j) = inverse == 0.0f ? 0.0f : (weights.empty() ? 1.0f : weights(i, j)) * share * share;
      }
  });
  const float largest = *std::max_element(importance.values().begin(), importance.values().end());
  if (largest > 0.0f)
    for (float& value : importance.values()) value /= largest;
  Palette fitted = fit_palette(values.values(), importance.values(), {.centroids = std::size_t{1} << bits});
  gap = fitted.gap();
  round_palette(fitted.centroids, DType::kF16, 0);
  return std::move(fitted.centroids);
}

void assign(MatrixView<const float> w, const Shape& shape, BlockPaletteRounding& result) {
  parallel_for_tiles(w.rows(), kLanes, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scaled(w.cols());
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t b = 0; b < shape.blocks; ++b) {
        const float inverse = inverse_of(result.scales(i, b) * shape.tensor_scale);
        for (std::size_t j = b * shape.block; j < std::min(w.cols(), (b + 1) * shape.block); ++j)
          scaled[j] = w(i, j) * inverse;
      }
      assign_codes(scaled, result.palette, result.codes.row(i));
    }
  });
}

double cost_of(MatrixView<const float> w, MatrixView<const float> weights, const Shape& shape,
               const BlockPaletteRounding& result) {
  std::vector<double> costs(w.rows());
  parallel_for_tiles(w.rows(), kLanes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < w.cols(); ++j) {
        const float scale = result.scales(i, j / shape.block) * shape.tensor_scale;
        const double error =
            static_cast<double>(w(i, j)) - static_cast<double>(result.palette[result.codes(i, j)] * scale);
        costs[i] += (weights.empty() ? 1.0 : static_cast<double>(weights(i, j))) * error * error;
      }
  });
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

/// Rounds of the best palette for the scales and the best scales for the palette.
void alternate(MatrixView<const float> w, MatrixView<const float> weights, const BlockPaletteOptions& options,
               const Shape& shape, BlockPaletteRounding& best) {
  best.history = {best.cost};
  for (std::size_t round = 0; round < options.joint_iterations; ++round) {
    BlockPaletteRounding next = best;
    next.palette = fit_entries(w, weights, shape, next.scales, options.bits, next.optimality_gap);
    search_scales(w, next.palette, shape, WeightedError(weights), next.scales);
    assign(w, shape, next);
    next.cost = cost_of(w, weights, shape, next);
    const double before = best.cost;
    if (next.cost < before) best = std::move(next);
    best.history.push_back(best.cost);
    if (best.cost >= before * (1.0 - kLeastRoundGain)) break;
  }
}

void require_valid_input(MatrixView<const float> w, MatrixView<const float> weights,
                         const BlockPaletteOptions& options) {
  NIBBLE_REQUIRE(options.bits >= 2 && options.bits <= 4, InvalidArgument,
                 "round_block_palette: expected 2 to 4 bits, got {}", options.bits);
  NIBBLE_REQUIRE(options.palette == BlockPalette::kLearned || options.bits == 4, InvalidArgument,
                 "round_block_palette: the palette {} has codes of 4 bits, got {}", block_palette_name(options.palette),
                 options.bits);
  NIBBLE_REQUIRE(!w.empty(), InvalidArgument, "round_block_palette: the matrix ({}, {}) is empty", w.rows(), w.cols());
  NIBBLE_REQUIRE(weights.empty() || (weights.rows() == w.rows() && weights.cols() == w.cols()), InvalidArgument,
                 "round_block_palette: values are ({}, {}) but weights ({}, {})", w.rows(), w.cols(), weights.rows(),
                 weights.cols());
  for (std::size_t i = 0; i < weights.rows(); ++i)
    for (std::size_t j = 0; j < weights.cols(); ++j)
      NIBBLE_REQUIRE(weights(i, j) >= 0.0f && std::isfinite(weights(i, j)), InvalidArgument,
                     "round_block_palette: the weight {} of row {}, column {} must be finite and not negative",
                     weights(i, j), i, j);
}

/// `search(palette, shape, scales)` improves scales.
template <class Search>
BlockPaletteRounding round_with(MatrixView<const float> w, MatrixView<const float> weights,
                                const BlockPaletteOptions& options, const Search& search) {
  require_valid_input(w, weights, options);
  Shape shape{.block = options.block == 0 ? w.cols() : std::min(options.block, w.cols()), .type = options.scale};
  shape.blocks = divide_up(w.cols(), shape.block);
  const auto fixed = fixed_palette(options.palette);
  const float entry = fixed.empty() ? 1.0f : main_entry(fixed);
  if (options.scale == ScaleType::kE4M3) shape.tensor_scale = tensor_scale_of(w, entry);
  BlockPaletteRounding result;
  result.tensor_scale = shape.tensor_scale;
  result.scales = ruled_scales(w, entry, shape);
  result.palette = fixed.empty() ? fit_entries(w, weights, shape, result.scales, options.bits, result.optimality_gap)
                                 : std::vector<float>(fixed.begin(), fixed.end());
  result.codes = Matrix<std::uint8_t>(w.rows(), w.cols());
  if (options.search) search(std::span<const float>(result.palette), shape, result.scales);
  assign(w, shape, result);
  result.cost = cost_of(w, weights, shape, result);
  if (options.search && fixed.empty()) alternate(w, weights, options, shape, result);
  return result;
}

}  // namespace
}  // namespace block_palette

BlockPaletteRounding round_block_palette(MatrixView<const float> w, MatrixView<const float> weights,
                                         const BlockPaletteOptions& options) {
  using namespace block_palette;
  return round_with(w, weights, options,
                    [&](std::span<const float> palette, const Shape& shape, Matrix<float>& scales) {
                      search_scales(w, palette, shape, WeightedError(weights), scales);
                    });
}

BlockPaletteRounding round_block_palette_hessian(MatrixView<const float> w, MatrixView<const float> weights,
                                                 MatrixView<const float> h, const BlockPaletteOptions& options) {
  using namespace block_palette;
  NIBBLE_REQUIRE(h.rows() == w.cols() && h.cols() == w.cols(), InvalidArgument,
                 "round_block_palette: a weight ({}, {}) needs a Hessian ({}, {}), got ({}, {})", w.rows(), w.cols(),
                 w.cols(), w.cols(), h.rows(), h.cols());
  NIBBLE_REQUIRE(options.search && options.joint_iterations == 0, InvalidArgument,
                 "round_block_palette: a Hessian is for a search without joint rounds, got search {} and {} rounds",
                 options.search, options.joint_iterations);
  require_finite_hessian(h);
  return round_with(w, weights, options,
                    [&](std::span<const float> palette, const Shape& shape, Matrix<float>& scales) {
                      search_scales(w, palette, shape, HessianError(h), scales);
                    });
}

BlockPaletteColumns::BlockPaletteColumns(BlockPaletteRounding rounded, const BlockPaletteOptions& options,
                                         bool static_groups)
    : options_(options),
      block_(options.block == 0 ? rounded.codes.cols() : std::min(options.block, rounded.codes.cols())),
      static_groups_(static_groups || block_ == rounded.codes.cols()),
      rounded_(std::move(rounded)),
      bounds_(block_palette::bounds_of(rounded_.palette)) {}

void BlockPaletteColumns::round(std::size_t column, std::size_t first_row, std::span<const float> values,
                                std::uint8_t* codes, float* decoded) const {
  const std::size_t block = column / block_;
  for (std::size_t r = 0; r < values.size(); ++r) {
    const float scale = rounded_.scales(first_row + r, block) * rounded_.tensor_scale;
    const float value = values[r] * block_palette::inverse_of(scale);
    std::size_t code = 0;
    for (std::size_t half = bounds_.size() / 2; half > 0; half /= 2)
      code += bounds_[code + half - 1] < value ? half : 0;
    codes[r] = static_cast<std::uint8_t>(code);
    decoded[r] = rounded_.palette[code] * scale;
  }
}

void BlockPaletteColumns::decode(std::size_t column, std::size_t first_row, std::span<const std::uint8_t> codes,
                                 float* decoded) const {
  const std::size_t block = column / block_;
  for (std::size_t r = 0; r < codes.size(); ++r)
    decoded[r] = rounded_.palette[codes[r]] * (rounded_.scales(first_row + r, block) * rounded_.tensor_scale);
}

void BlockPaletteColumns::adapt(std::size_t block, std::size_t first_row, MatrixView<const float> current) {
  const block_palette::Shape shape{
      .block = current.cols(), .blocks = 1, .type = options_.scale, .tensor_scale = rounded_.tensor_scale};
  // A learned palette was fitted to blocks whose largest value is 1.
  const float entry = options_.palette == BlockPalette::kLearned ? 1.0f : block_palette::main_entry(rounded_.palette);
  const Matrix<float> fresh = block_palette::ruled_scales(current, entry, shape);
  for (std::size_t r = 0; r < current.rows(); ++r) rounded_.scales(first_row + r, block) = fresh(r, 0);
}

}  // namespace nibble::quant
