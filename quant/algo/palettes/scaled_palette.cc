#include "quant/algo/palettes/scaled_palette.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/kmeans/palette.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kScaledRowTile = 16;
constexpr std::size_t kMaxSignRounds = 8;
constexpr double kLeastRefitGain = 1e-6;

class ScaledFitter {
 public:
  ScaledFitter(MatrixView<const float> w, MatrixView<const float> weights, const ScaledPaletteOptions& options)
      : w_(w),
        weights_(weights),
        options_(options),
        group_rows_(options.palette.group_rows == 0 ? w.rows() : options.palette.group_rows),
        scaled_(w.rows(), w.cols()),
        scaled_weights_(w.rows(), w.cols()) {}

  ScaledPalettization run() {
    std::vector<float> scales = row_scales(w_, options_.scale);
    if (options_.sign == ScaleSign::kFlip) {
      const auto down = rows_leaning_down(w_, weights_, std::size_t{1} << options_.palette.bits);
      flip(scales, down);
    }
    ScaledPalettization best =
        finished(options_.sign == ScaleSign::kSearch ? searched_signs(scales) : fit(scales, options_.objective));
    if (options_.refit_scales) refit_scales(best);
    if (options_.joint_iterations > 0) alternate(best);
    return best;
  }

 private:
  struct Fit {
    std::vector<float> scales;
    Palettization palettization;
  };

  template <class Body>
  void for_rows(const Body& body) const {
    parallel_for_tiles(w_.rows(), kScaledRowTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) body(row);
    });
  }

  static void flip(std::vector<float>& scales, const std::vector<bool>& down) {
    for (std::size_t i = 0; i < scales.size(); ++i)
      if (down[i]) scales[i] = -scales[i];
  }

  std::span<const float> weights_of(std::size_t row) const {
    return weights_.empty() ? std::span<const float>() : weights_.row(row);
  }

  // W / s and the weights that go with it. A row of zeros has no say.
  void divide(const std::vector<float>& scales, bool objective) {
    for_rows([&](std::size_t row) {
      const float s = scales[row], squared = s * s;
      for (std::size_t j = 0; j < w_.cols(); ++j) {
        const float f = weights_.empty() ? 1.0f : weights_(row, j);
        scaled_(row, j) = s == 0.0f ? 0.0f : w_(row, j) / s;
        scaled_weights_(row, j) = s == 0.0f ? 0.0f : objective ? f * squared : f;
      }
    });
  }

  Fit fit(const std::vector<float>& scales, bool objective) {
    divide(scales, objective);
    return {scales, palettize(scaled_, scaled_weights_, options_.palette)};
  }

  // Alternates the cheaper sign of every row with the palette, from all plus and from rows aligned by their skew.
  Fit searched_signs(const std::vector<float>& scales) {
    Fit best = improved_signs(scales);
    std::vector<float> aligned = scales;
    flip(aligned, skewed_down());
    Fit other = improved_signs(aligned);
    return other.palettization.cost < best.palettization.cost ? std::move(other) : std::move(best);
  }

  Fit improved_signs(const std::vector<float>& scales) {
    Fit best = fit(scales, options_.objective);
    for (std::size_t round = 0; round < kMaxSignRounds; ++round) {
      const auto better = rows_better_mirrored(best.palettization.palettes);
      if (std::find(better.begin(), better.end(), true) == better.end()) break;
      std::vector<float> next = best.scales;
      flip(next, better);
      Fit candidate = fit(next, options_.objective);
      if (!(candidate.palettization.cost < best.palettization.cost)) break;
      best = std::move(candidate);
    }
    return best;
  }

  // Of the rows as they are divided now.
  std::vector<bool> rows_better_mirrored(const Matrix<float>& palettes) const {
    std::vector<std::uint8_t> better(w_.rows());
    for_rows([&](std::size_t row) {
      const auto palette = palettes.row(row / group_rows_);
      std::vector<float> mirrored(w_.cols());
      std::transform(scaled_.row(row).begin(), scaled_.row(row).end(), mirrored.begin(), std::negate<>());
      better[row] = palette_cost(mirrored, scaled_weights_.row(row), palette) <
                    palette_cost(scaled_.row(row), scaled_weights_.row(row), palette);
    });
    return {better.begin(), better.end()};
  }

  std::vector<bool> skewed_down() const {
    std::vector<std::uint8_t> down(w_.rows());
    for_rows([&](std::size_t row) {
      double cubes = 0.0;
      for (std::size_t j = 0; j < w_.cols(); ++j) {
        const auto x = static_cast<double>(w_(row, j));
        cubes += (weights_.empty() ? 1.0 : static_cast<double>(weights_(row, j))) * x * x * x;
      }
      down[row] = cubes < 0.0;
    });
    return {down.begin(), down.end()};
  }

  // Equation (1) for a row.
  double row_cost(std::size_t row, float scale, std::span<const float> palette,
                  std::span<const std::uint8_t> codes) const {
    double cost = 0.0;
    for (std::size_t j = 0; j < w_.cols(); ++j) {
      const double error = static_cast<double>(w_(row, j)) - static_cast<double>(scale * palette[codes[j]]);
      cost += (weights_.empty() ? 1.0 : static_cast<double>(weights_(row, j))) * error * error;
    }
    return cost;
  }

  double cost_of(const std::vector<float>& scales, const Matrix<float>& palettes,
                 const Matrix<std::uint8_t>& codes) const {
    std::vector<double> costs(w_.rows());
    for_rows([&](std::size_t row) {
      costs[row] = row_cost(row, scales[row], palettes.row(row / group_rows_), codes.row(row));
    });
    return std::accumulate(costs.begin(), costs.end(), 0.0);
  }

  ScaledPalettization finished(Fit fit) const {
    Palettization& made = fit.palettization;
    ScaledPalettization result{
        std::move(fit.scales), std::move(made.palettes), std::move(made.codes), 0.0, made.optimality_gap, {}};
    result.cost = cost_of(result.scales, result.palettes, result.codes);
    return result;
  }

  // Scales in closed form for the codes there are, then the nearest codes; row by row, where that is better.
  void refit_scales(ScaledPalettization& state) const {
    std::vector<double> costs(w_.rows());
    for_rows([&](std::size_t row) {
      const auto palette = std::as_const(state.palettes).row(row / group_rows_);
      const auto codes = state.codes.row(row);
      const double before = row_cost(row, state.scales[row], palette, codes);
      costs[row] = before;
      if (state.scales[row] == 0.0f) return;
      std::vector<float> values(w_.cols());
      for (std::size_t j = 0; j < values.size(); ++j) values[j] = palette[codes[j]];
      const float scale = least_squares_scale(w_.row(row), weights_of(row), values, state.scales[row]);
      if (scale == state.scales[row]) return;
      for (std::size_t j = 0; j < values.size(); ++j) values[j] = w_(row, j) / scale;
      std::vector<std::uint8_t> nearest(w_.cols());
      assign_codes(values, palette, nearest);
      const double after = row_cost(row, scale, palette, nearest);
      if (!(after < before)) return;
      state.scales[row] = scale;
      std::copy(nearest.begin(), nearest.end(), codes.begin());
      costs[row] = after;
    });
    state.cost = std::accumulate(costs.begin(), costs.end(), 0.0);
  }

  void alternate(ScaledPalettization& best) {
    best.history = {best.cost};
    for (std::size_t round = 0; round < options_.joint_iterations; ++round) {
      refit_scales(best);
      ScaledPalettization refitted = finished(fit(best.scales, /*objective=*/true));
      if (refitted.cost < best.cost) {
        refitted.history = std::move(best.history);
        best = std::move(refitted);
      }
      const double before = best.history.back();
      best.history.push_back(best.cost);
      if (best.cost >= before * (1.0 - kLeastRefitGain)) break;
    }
  }

  MatrixView<const float> w_, weights_;
  const ScaledPaletteOptions& options_;
  std::size_t group_rows_;
  Matrix<float> scaled_, scaled_weights_;  // W / s, and its weights
};

}  // namespace

ScaledPalettization palettize_scaled(MatrixView<const float> w, MatrixView<const float> weights,
                                     const ScaledPaletteOptions& options) {
  NIBBLE_REQUIRE(!w.empty(), InvalidArgument, "palettize: the matrix ({}, {}) is empty", w.rows(), w.cols());
  NIBBLE_REQUIRE(weights.empty() || (weights.rows() == w.rows() && weights.cols() == w.cols()), InvalidArgument,
                 "palettize: values are ({}, {}) but weights ({}, {})", w.rows(), w.cols(), weights.rows(),
                 weights.cols());
  return ScaledFitter(w, weights, options).run();
}

}  // namespace nibble::quant
