#include "quant/algo/palettize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "quant/algo/finite.h"
#include "quant/algo/palette.h"
#include "quant/algo/palette_rounding.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kRowTile = 16;

void require_valid(MatrixView<const float> w, MatrixView<const float> weights, const PalettizeOptions& options) {
  NIBBLE_REQUIRE(options.bits >= 1 && options.bits <= 8, InvalidArgument, "palettize: expected 1 to 8 bits, got {}",
                 options.bits);
  NIBBLE_REQUIRE(!w.empty(), InvalidArgument, "palettize: the matrix ({}, {}) is empty", w.rows(), w.cols());
  NIBBLE_REQUIRE(weights.data() == nullptr || (weights.rows() == w.rows() && weights.cols() == w.cols()),
                 InvalidArgument, "palettize: values are ({}, {}) but weights ({}, {})", w.rows(), w.cols(),
                 weights.rows(), weights.cols());
}

/// The rows as one span: in place where they lie without gaps, else copied to `buffer`.
std::span<const float> as_span(MatrixView<const float> rows, std::vector<float>& buffer) {
  if (rows.stride() == rows.cols() || rows.rows() == 1) return {rows.data(), rows.rows() * rows.cols()};
  buffer.clear();
  for (std::size_t r = 0; r < rows.rows(); ++r) buffer.insert(buffer.end(), rows.row(r).begin(), rows.row(r).end());
  return buffer;
}

/// What one thread needs to fit groups.
struct Worker {
  PaletteFitter fitter;
  std::vector<float> values, weights;
};

struct GroupCost {
  double fitted = 0.0, lower_bound = 0.0, stored = 0.0;
};

}  // namespace

Palettization palettize(MatrixView<const float> w, MatrixView<const float> weights, const PalettizeOptions& options) {
  require_valid(w, weights, options);
  const std::size_t group_rows = options.group_rows == 0 ? w.rows() : options.group_rows;
  const std::size_t groups = divide_up(w.rows(), group_rows), entries = std::size_t{1} << options.bits;
  Palettization result;
  result.palettes = Matrix<float>(groups, entries);
  result.codes = Matrix<std::uint8_t>(w.rows(), w.cols());
  std::vector<GroupCost> costs(groups);
  std::vector<Worker> workers(thread_count());

  parallel_for(groups, [&](std::size_t group) {
    Worker& worker = workers[thread_index()];
    const std::size_t begin = group * group_rows, count = std::min(group_rows, w.rows() - begin);
    const auto values = as_span(w.rows_slice(begin, count), worker.values);
    const auto group_weights = weights.data() == nullptr ? std::span<const float>()
                                                         : as_span(weights.rows_slice(begin, count), worker.weights);
    if (const auto bad = first_not_finite(values))
      throw NumericalError(fmt::format("palettize: the weight at row {}, column {} is {}", begin + *bad / w.cols(),
                                       *bad % w.cols(), values[*bad]));
    const Palette fitted = worker.fitter.fit(values, group_weights, {.centroids = entries, .gap = options.gap});
    const auto palette = result.palettes.row(group);
    std::copy(fitted.centroids.begin(), fitted.centroids.end(), palette.begin());
    round_palette(palette, options.palette_dtype, group);
    const double stored =
        options.palette_dtype == DType::kF32 ? fitted.cost : palette_cost(values, group_weights, palette);
    costs[group] = {fitted.cost, fitted.lower_bound, stored};
  });
  parallel_for_tiles(w.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      assign_codes(w.row(row), result.palettes.row(row / group_rows), result.codes.row(row));
  });

  double fitted = 0.0, lower_bound = 0.0;
  for (const GroupCost& cost : costs) {
    fitted += cost.fitted;
    lower_bound += cost.lower_bound;
    result.cost += cost.stored;
  }
  result.optimality_gap = fitted > 0.0 ? (fitted - lower_bound) / fitted : 0.0;
  return result;
}

}  // namespace nibble::quant
