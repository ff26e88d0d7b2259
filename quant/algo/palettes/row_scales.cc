#include "quant/algo/palettes/row_scales.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kScalesRowTile = 16;
constexpr double kHardlyVaries = 1.0 / 64;
constexpr float kSmallestScale = 0x1p-24f;

struct Spread {
  double mean = 0.0, deviation = 0.0;
};

Spread spread_of(std::span<const float> row) {
  double sum = 0.0, squares = 0.0;
  for (const float value : row) sum += static_cast<double>(value);
  const double mean = sum / static_cast<double>(row.size());
  for (const float value : row) squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return {mean, row.size() > 1 ? std::sqrt(squares / static_cast<double>(row.size() - 1)) : 0.0};
}

float scale_of(std::span<const float> row, std::size_t index, RowScale rule) {
  const auto range = finite_range(row);
  NIBBLE_REQUIRE(range, NumericalError, "row scales: row {} holds a NaN or infinite weight", index);
  const float largest = std::max(std::abs(range->low), std::abs(range->high));
  if (largest == 0.0f) return 0.0f;
  double scale = static_cast<double>(largest);
  if (rule == RowScale::kStd) {
    const Spread spread = spread_of(row);
    if (spread.deviation > kHardlyVaries * std::abs(spread.mean)) scale = spread.deviation;
  }
  const float rounded = round_to_f16(static_cast<float>(scale));
  NIBBLE_REQUIRE(std::isfinite(rounded), NumericalError, "row scales: {} of row {} is beyond float16 (65504)", scale,
                 index);
  return std::max(rounded, kSmallestScale);
}

}  // namespace

std::vector<float> row_scales(MatrixView<const float> w, RowScale rule) {
  NIBBLE_REQUIRE(!w.empty(), InvalidArgument, "row scales: the matrix ({}, {}) is empty", w.rows(), w.cols());
  std::vector<float> scales(w.rows());
  parallel_for_tiles(w.rows(), kScalesRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) scales[row] = scale_of(w.row(row), row, rule);
  });
  return scales;
}

std::vector<bool> rows_leaning_down(MatrixView<const float> w, MatrixView<const float> weights, std::size_t centroids) {
  std::vector<std::uint8_t> down(w.rows());
  std::vector<PaletteFitter> fitters(thread_count());
  parallel_for(w.rows(), [&](std::size_t row) {
    const auto row_weights = weights.empty() ? std::span<const float>() : weights.row(row);
    const Palette palette = fitters[thread_index()].fit(w.row(row), row_weights, {.centroids = centroids});
    down[row] = std::abs(palette.centroids.front()) > palette.centroids.back() ? 1 : 0;
  });
  return {down.begin(), down.end()};
}

float least_squares_scale(std::span<const float> w, std::span<const float> weights, std::span<const float> values,
                          float previous) {
  double product = 0.0, square = 0.0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    const double f = weights.empty() ? 1.0 : static_cast<double>(weights[j]), v = static_cast<double>(values[j]);
    product += f * static_cast<double>(w[j]) * v;
    square += f * v * v;
  }
  if (!(square > 0.0)) return previous;
  const float scale = round_to_f16(static_cast<float>(product / square));
  return std::isfinite(scale) && scale != 0.0f ? scale : previous;
}

}  // namespace nibble::quant
