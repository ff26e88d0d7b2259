#include "quant/algo/windows/windowed_palette.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/windows/window_search.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kColumnTile = 8;
constexpr std::size_t kSampleWeights = std::size_t{1} << 17, kWholeSample = std::size_t{1} << 19;
// Of a round's noise, as a share of the values' root mean square, and of its step, in terms of the one to the means.
constexpr double kNoise = 0.2, kLongStep = 1.5;
constexpr double kNoiseUntil = 0.7, kLongStepsUntil = 0.8;  // shares of the rounds
constexpr std::size_t kFinalRounds = 20;
constexpr double kLeastRoundGain = 2e-4, kLeastJointGain = 1e-6;

// Of a weight with more rows than kMostRows a sample takes stretches of kStretchRows from many inputs, since whole
// columns of so many would be few, and the palette theirs alone.
constexpr std::size_t kMostRows = 8192, kStretchRows = 2048;

// Rows [first, first + count) of an input: a stream of their own.
struct Stretch {
  std::size_t column = 0, first = 0, count = 0;
};

// What the streams of some stretches make of a palette.
struct Pass {
  double cost = 0.0;
  std::vector<double> products, squares;  // by window: Σ u t and Σ u², in the words of WindowSearch
};

class WindowedFitter {
 public:
  WindowedFitter(MatrixView<const float> w, MatrixView<const float> weights, const WindowedPaletteOptions& options)
      : w_(w), weights_(weights), options_(options), targets_(w.cols(), w.rows()) {
    if (options.scale) scales_ = row_scales(w, *options.scale);
    if (!weights_.empty()) roots_ = Matrix<float>(w.cols(), w.rows());
    parallel_for_tiles(w.cols(), kColumnTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = 0; i < w.rows(); ++i)
        for (std::size_t j = begin; j < end; ++j) {
          const float root = weights_.empty() ? 1.0f : std::sqrt(weights_(i, j));
          targets_(j, i) = w(i, j) * root;
          if (!weights_.empty()) roots_(j, i) = root;
        }
    });
  }

  WindowedPalettization run() {
    for (std::size_t j = 0; j < w_.cols(); ++j) all_.push_back({j, 0, w_.rows()});
    WindowedPalettization best;
    best.weight.window_step = options_.bits;
    best.weight.palettes = Matrix<float>(1, entries());
    best.weight.scales = scales_;
    store(fitted(), best);
    if (options_.scale && options_.joint_iterations > 0) alternate(best);
    return best;
  }

 private:
  std::size_t entries() const { return std::size_t{1} << options_.window_bits; }
  float scale_of(std::size_t row) const { return scales_.empty() ? 1.0f : scales_[row]; }

  // About so many weights, evenly spread over inputs, and over rows where these are many.
  std::vector<Stretch> sampled(std::size_t weights) const {
    const std::size_t rows = w_.rows(), count = rows <= kMostRows ? rows : kStretchRows;
    const std::size_t most = std::max<std::size_t>(1, weights / count);
    if (most >= w_.cols() * (rows / count)) return all_;
    constexpr double kGoldenRatio = 0.6180339887498949;  // its multiples, less whole parts, lie evenly
    std::vector<Stretch> stretches;
    for (std::size_t n = 0; n < most; ++n) {
      const double at = static_cast<double>(n) * kGoldenRatio;
      const double share = at - std::floor(at);
      stretches.push_back(
          {n * w_.cols() / most, static_cast<std::size_t>(share * static_cast<double>(rows - count)), count});
    }
    return stretches;
  }

  // The best streams of `stretches`; the codes of whole inputs go to `codes` (out, in) where it is given.
  Pass search(std::span<const float> palette, std::span<const Stretch> stretches, Matrix<std::uint16_t>* codes) const {
    const std::size_t tiles = (stretches.size() + kColumnTile - 1) / kColumnTile;
    std::vector<Pass> of_tile(tiles);
    std::vector<WindowSearch> searches;
    for (std::size_t t = 0; t < thread_count(); ++t)
      searches.emplace_back(palette, options_.bits, options_.window_bits);
    parallel_for(tiles, [&](std::size_t tile) {
      Pass& pass = of_tile[tile];
      pass.products.resize(entries());
      pass.squares.resize(entries());
      std::vector<float> factors;
      std::vector<std::uint16_t> column;
      for (std::size_t n = tile * kColumnTile; n < std::min(stretches.size(), (tile + 1) * kColumnTile); ++n) {
        const auto [j, first, rows] = stretches[n];
        const auto targets = targets_.row(j).subspan(first, rows);
        factors.resize(rows), column.resize(rows);
        for (std::size_t i = 0; i < rows; ++i)
          factors[i] = scale_of(first + i) * (weights_.empty() ? 1.0f : roots_(j, first + i));
        searches[thread_index()].search(targets, factors, column);
        for (std::size_t i = 0; i < rows; ++i) {
          const double t = targets[i], u = factors[i], error = t - u * static_cast<double>(palette[column[i]]);
          pass.cost += error * error;
          pass.products[column[i]] += u * t;
          pass.squares[column[i]] += u * u;
        }
        if (codes != nullptr)
          for (std::size_t i = 0; i < rows; ++i) (*codes)(first + i, j) = column[i];
      }
    });
    Pass sum{.products = std::vector<double>(entries()), .squares = std::vector<double>(entries())};
    for (const Pass& pass : of_tile) {
      sum.cost += pass.cost;
      for (std::size_t q = 0; q < entries(); ++q) {
        sum.products[q] += pass.products[q];
        sum.squares[q] += pass.squares[q];
      }
    }
    return sum;
  }

  // Windows that nothing uses keep their entry.
  static void take_means(const Pass& pass, std::span<float> palette) {
    for (std::size_t q = 0; q < palette.size(); ++q)
      if (pass.squares[q] > 0.0) palette[q] = static_cast<float>(pass.products[q] / pass.squares[q]);
  }

  // Quantiles of W / s over the sample, ascending, one for each entry; rows of scale 0 have no say.
  std::vector<float> quantiles(std::span<const Stretch> stretches) const {
    std::vector<float> values;
    for (const auto& [j, first, rows] : stretches)
      for (std::size_t i = first; i < first + rows; ++i)
        if (scale_of(i) != 0.0f) values.push_back(w_(i, j) / scale_of(i));
    if (values.empty()) values.push_back(0.0f);
    std::sort(values.begin(), values.end());
    std::vector<float> result(entries());
    for (std::size_t n = 0; n < entries(); ++n) result[n] = values[(2 * n + 1) * values.size() / (2 * entries())];
    return result;
  }

  // Quantiles in any order.
  std::vector<float> shuffled(std::vector<float> palette, Random& random) const {
    for (std::size_t n = palette.size(); n > 1; --n) std::swap(palette[n - 1], palette[random.below(n)]);
    return palette;
  }

  // One annealed palette. Means that are moved about settle in a deeper optimum than those of plain rounds, whose first
  // few decide which windows stand for what: docs/results/windowed.md.
  std::vector<float> annealed(std::span<const Stretch> sample, std::size_t start) const {
    Random random(options_.seed * 1000003 + start);
    const std::vector<float> ascending = quantiles(sample);
    double squares = 0.0;
    for (const float value : ascending) squares += static_cast<double>(value) * static_cast<double>(value);
    const double size = std::sqrt(squares / static_cast<double>(entries()));
    std::vector<float> palette = shuffled(ascending, random);
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      std::vector<float> means = palette;
      take_means(search(palette, sample, nullptr), means);
      const double at = static_cast<double>(round) / static_cast<double>(options_.rounds);
      const double noise = kNoise * size * std::max(0.0, 1.0 - at / kNoiseUntil);
      const double step = at < kLongStepsUntil ? kLongStep : 1.0;
      for (std::size_t q = 0; q < entries(); ++q)
        palette[q] = static_cast<float>(static_cast<double>(palette[q]) +
                                        step * (static_cast<double>(means[q]) - static_cast<double>(palette[q])) +
                                        (noise > 0.0 ? noise * random.normal() : 0.0));
    }
    return palette;
  }

  std::vector<float> fitted() const {
    const std::vector<Stretch> sample = sampled(kSampleWeights), more = sampled(kWholeSample);
    std::vector<float> best;
    double best_cost = 0.0;
    for (std::size_t start = 0; start < options_.starts; ++start) {
      std::vector<float> palette = annealed(sample, start);
      const double cost = search(palette, more, nullptr).cost;
      if (start > 0 && cost >= best_cost) continue;
      best = std::move(palette);
      best_cost = cost;
    }
    for (std::size_t round = 0; round < kFinalRounds; ++round) {
      const Pass pass = search(best, more, nullptr);
      take_means(pass, best);
      if (round > 0 && pass.cost >= best_cost * (1.0 - kLeastRoundGain)) break;
      best_cost = pass.cost;
    }
    return best;
  }

  // `palette` rounded, and the codes that go with it.
  Pass store(std::vector<float> palette, WindowedPalettization& made) const {
    round_palette(palette, options_.palette_dtype, 0);
    std::copy(palette.begin(), palette.end(), made.weight.palettes.data());
    made.weight.codes = Matrix<std::uint16_t>(w_.rows(), w_.cols());
    Pass pass = search(palette, all_, &made.weight.codes);
    made.cost = pass.cost;
    return pass;
  }

  // The best scales for the codes there are.
  void refit_scales(const WindowedWeight& weight) {
    parallel_for_tiles(w_.rows(), kColumnTile, [&](std::size_t begin, std::size_t end) {
      std::vector<float> values(w_.cols());
      for (std::size_t i = begin; i < end; ++i) {
        for (std::size_t j = 0; j < values.size(); ++j) values[j] = weight.palettes(0, weight.codes(i, j));
        if (scales_[i] != 0.0f)
          scales_[i] = least_squares_scale(w_.row(i), weights_.empty() ? std::span<const float>() : weights_.row(i),
                                           values, scales_[i]);
      }
    });
  }

  // The means of the windows that `weight` has, with the scales as they are now.
  std::vector<float> means_of(const WindowedWeight& weight) const {
    Pass pass{.products = std::vector<double>(entries()), .squares = std::vector<double>(entries())};
    for (std::size_t i = 0; i < w_.rows(); ++i)
      for (std::size_t j = 0; j < w_.cols(); ++j) {
        const double f = weights_.empty() ? 1.0 : static_cast<double>(weights_(i, j)), s = scale_of(i);
        pass.products[weight.codes(i, j)] += f * s * static_cast<double>(w_(i, j));
        pass.squares[weight.codes(i, j)] += f * s * s;
      }
    std::vector<float> palette(weight.palettes.row(0).begin(), weight.palettes.row(0).end());
    take_means(pass, palette);
    return palette;
  }

  void alternate(WindowedPalettization& best) {
    best.history = {best.cost};
    for (std::size_t round = 0; round < options_.joint_iterations; ++round) {
      scales_ = best.weight.scales;
      refit_scales(best.weight);
      WindowedPalettization next;
      next.weight.palettes = Matrix<float>(1, entries());
      next.weight.scales = scales_;
      next.weight.window_step = options_.bits;
      store(means_of(best.weight), next);
      if (next.cost < best.cost) {
        next.history = std::move(best.history);
        best = std::move(next);
      }
      const double before = best.history.back();
      best.history.push_back(best.cost);
      if (best.cost >= before * (1.0 - kLeastJointGain)) break;
    }
  }

  MatrixView<const float> w_, weights_;
  const WindowedPaletteOptions& options_;
  Matrix<float> targets_, roots_;  // (in, out): W √F and √F
  std::vector<float> scales_;
  std::vector<Stretch> all_;  // inputs, whole
};

}  // namespace

WindowedPalettization palettize_windows(MatrixView<const float> w, MatrixView<const float> weights,
                                        const WindowedPaletteOptions& options) {
  NIBBLE_REQUIRE(!w.empty() && (weights.empty() || (weights.rows() == w.rows() && weights.cols() == w.cols())) &&
                     options.starts >= 1,
                 InvalidArgument, "palettize_windows: values ({}, {}), weights ({}, {}), {} starts", w.rows(), w.cols(),
                 weights.rows(), weights.cols(), options.starts);
  return WindowedFitter(w, weights, options).run();
}

}  // namespace nibble::quant
