#include "quant/algo/palettes/palettize.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kPalettizeRowTile = 16;

void require_valid(MatrixView<const float> w, MatrixView<const float> weights) {
  NIBBLE_REQUIRE(!w.empty(), InvalidArgument, "palettize: the matrix ({}, {}) is empty", w.rows(), w.cols());
  NIBBLE_REQUIRE(weights.data() == nullptr || (weights.rows() == w.rows() && weights.cols() == w.cols()),
                 InvalidArgument, "palettize: values are ({}, {}) but weights ({}, {})", w.rows(), w.cols(),
                 weights.rows(), weights.cols());
}

std::size_t entries_of(const PalettizeOptions& options) {
  NIBBLE_REQUIRE(options.bits >= 1 && options.bits <= 8, InvalidArgument, "palettize: expected 1 to 8 bits, got {}",
                 options.bits);
  return std::size_t{1} << options.bits;
}

/// The rows as one span: in place where they lie without gaps, else copied to `buffer`.
std::span<const float> as_span(MatrixView<const float> rows, std::vector<float>& buffer) {
  if (rows.stride() == rows.cols() || rows.rows() == 1) return {rows.data(), rows.rows() * rows.cols()};
  buffer.clear();
  for (std::size_t r = 0; r < rows.rows(); ++r) buffer.insert(buffer.end(), rows.row(r).begin(), rows.row(r).end());
  return buffer;
}

/// The rows of one group as spans, or copies of them.
struct Group {
  std::span<const float> values, weights;
};

/// What one thread needs to work on groups.
struct Worker {
  PaletteFitter fitter;
  std::vector<float> value_buffer, weight_buffer;

  Group group(MatrixView<const float> w, MatrixView<const float> weights, std::size_t begin, std::size_t count) {
    return {as_span(w.rows_slice(begin, count), value_buffer),
            weights.data() == nullptr ? std::span<const float>()
                                      : as_span(weights.rows_slice(begin, count), weight_buffer)};
  }
};

/// Calls body(group, its rows, the thread's worker) for every group of rows, on all threads.
template <class Body>
void for_each_group(MatrixView<const float> w, MatrixView<const float> weights, std::size_t group_rows,
                    const Body& body) {
  std::vector<Worker> workers(thread_count());
  parallel_for(divide_up(w.rows(), group_rows), [&](std::size_t group) {
    Worker& worker = workers[thread_index()];
    const std::size_t begin = group * group_rows, count = std::min(group_rows, w.rows() - begin);
    body(group, worker.group(w, weights, begin, count), worker);
  });
}

}  // namespace

std::vector<Palette> fit_palettes(MatrixView<const float> w, MatrixView<const float> weights, std::size_t group_rows,
                                  const PaletteOptions& options) {
  require_valid(w, weights);
  if (group_rows == 0) group_rows = w.rows();
  std::vector<Palette> palettes(divide_up(w.rows(), group_rows));
  for_each_group(w, weights, group_rows, [&](std::size_t group, const Group& rows, Worker& worker) {
    if (const auto bad = first_not_finite(rows.values))
      throw NumericalError(fmt::format("palettize: the weight at row {}, column {} is {}",
                                       group * group_rows + *bad / w.cols(), *bad % w.cols(), rows.values[*bad]));
    palettes[group] = worker.fitter.fit(rows.values, rows.weights, options);
  });
  return palettes;
}

Palettization palettize(MatrixView<const float> w, MatrixView<const float> weights, const PalettizeOptions& options) {
  const std::size_t entries = entries_of(options);
  const std::vector<Palette> fitted =
      fit_palettes(w, weights, options.group_rows, {.centroids = entries, .gap = options.gap});
  const std::size_t group_rows = options.group_rows == 0 ? w.rows() : options.group_rows;
  Palettization result;
  result.palettes = Matrix<float>(fitted.size(), entries);
  result.codes = Matrix<std::uint8_t>(w.rows(), w.cols());
  std::vector<double> stored(fitted.size());
  for_each_group(w, weights, group_rows, [&](std::size_t group, const Group& rows, Worker&) {
    const auto palette = result.palettes.row(group);
    std::copy(fitted[group].centroids.begin(), fitted[group].centroids.end(), palette.begin());
    round_palette(palette, options.palette_dtype, group);
    stored[group] =
        options.palette_dtype == DType::kF32 ? fitted[group].cost : palette_cost(rows.values, rows.weights, palette);
  });
  parallel_for_tiles(w.rows(), kPalettizeRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      assign_codes(w.row(row), result.palettes.row(row / group_rows), result.codes.row(row));
  });

  double cost = 0.0, lower_bound = 0.0;
  for (std::size_t group = 0; group < fitted.size(); ++group) {
    cost += fitted[group].cost;
    lower_bound += fitted[group].lower_bound;
    result.cost += stored[group];
  }
  result.fitted_cost = cost;
  result.optimality_gap = cost > 0.0 ? (cost - lower_bound) / cost : 0.0;
  return result;
}

SharedPalette fit_shared_palette(const WeightedValues& values, const PalettizeOptions& options) {
  Palette fitted = fit_palette(values, {.centroids = entries_of(options), .gap = options.gap});
  round_palette(fitted.centroids, options.palette_dtype, 0);
  return {std::move(fitted.centroids), fitted.gap(), fitted.cost};
}

}  // namespace nibble::quant
