#include "quant/algo/vectors/vector_palette.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/rounding/finite.h"
#include "quant/algo/vectors/vector_clusters.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kSampleVectors = 32768, kSampleRounds = 8, kMostRounds = 60;
constexpr double kLeastVectorGain = 1e-4;

void require_valid(MatrixView<const float> w, MatrixView<const float> weights, const VectorPaletteOptions& options) {
  NIBBLE_REQUIRE(options.bits >= 1 && options.bits <= 8, InvalidArgument,
                 "palettize_vectors: expected 1 to 8 bits, got {}", options.bits);
  NIBBLE_REQUIRE(options.dim == 2 || options.dim == 4, InvalidArgument,
                 "palettize_vectors: expected vectors of 2 or 4 inputs, got {}", options.dim);
  NIBBLE_REQUIRE(options.starts >= 1, InvalidArgument, "palettize_vectors: expected at least one start");
  NIBBLE_REQUIRE(!w.empty() && w.cols() % options.dim == 0, InvalidArgument,
                 "palettize_vectors: a matrix ({}, {}) cannot be cut into vectors of {} inputs", w.rows(), w.cols(),
                 options.dim);
  NIBBLE_REQUIRE(weights.empty() || (weights.rows() == w.rows() && weights.cols() == w.cols()), InvalidArgument,
                 "palettize_vectors: values are ({}, {}) but weights ({}, {})", w.rows(), w.cols(), weights.rows(),
                 weights.cols());
  for (std::size_t i = 0; i < w.rows(); ++i) {
    if (const auto bad = first_not_finite(w.row(i)))
      throw NumericalError(
          fmt::format("palettize_vectors: the weight at row {}, column {} is {}", i, *bad, w(i, *bad)));
    for (std::size_t j = 0; j < weights.cols() && i < weights.rows(); ++j)
      NIBBLE_REQUIRE(weights(i, j) >= 0.0f && std::isfinite(weights(i, j)), InvalidArgument,
                     "palettize_vectors: the weight {} of row {}, column {} must be finite and not negative",
                     weights(i, j), i, j);
  }
}

WeightedVectors vectors_of(MatrixView<const float> w, MatrixView<const float> weights, std::size_t dim) {
  bool some = false;
  for (std::size_t i = 0; i < weights.rows(); ++i)
    some = some || std::any_of(weights.row(i).begin(), weights.row(i).end(), [](float f) { return f > 0.0f; });
  WeightedVectors vectors;
  vectors.resize(dim, w.rows() * w.cols() / dim);
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (std::size_t j = 0; j < w.cols(); ++j)
      vectors.set((i * w.cols() + j) / dim, j % dim, w(i, j), some ? weights(i, j) : 1.0f);
  return vectors;
}

/// One vector from each of kSampleVectors stretches of equal length; all if there are no more.
WeightedVectors sample_of(const WeightedVectors& vectors, Random& random) {
  if (vectors.count <= kSampleVectors) return vectors;
  WeightedVectors sample;
  sample.resize(vectors.dim, kSampleVectors);
  for (std::size_t s = 0; s < kSampleVectors; ++s) {
    const std::size_t begin = s * vectors.count / kSampleVectors, end = (s + 1) * vectors.count / kSampleVectors;
    const std::size_t v = begin + random.below(end - begin);
    for (std::size_t d = 0; d < vectors.dim; ++d) {
      sample.root[d * sample.count + s] = vectors.root[d * vectors.count + v];
      sample.scaled[d * sample.count + s] = vectors.scaled[d * vectors.count + v];
    }
  }
  return sample;
}

/// Lloyd's rounds; the cost of the palette before the last update.
double improve(const WeightedVectors& vectors, std::size_t rounds, std::span<std::uint8_t> codes,
               std::span<float> palette) {
  double cost = 0.0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const Round found = assign_vectors(vectors, palette, codes);
    const bool done = round > 0 && found.cost >= cost * (1.0 - kLeastVectorGain);
    cost = found.cost;
    if (cost == 0.0) break;
    update_palette(vectors, found, palette);
    if (done) break;
  }
  return cost;
}

std::vector<float> best_start(const WeightedVectors& vectors, const VectorPaletteOptions& options, Random& random) {
  const WeightedVectors sample = sample_of(vectors, random);
  std::vector<std::uint8_t> codes(sample.count);
  std::vector<float> best, palette((std::size_t{1} << options.bits) * options.dim);
  double least = 0.0;
  for (std::size_t start = 0; start < options.starts; ++start) {
    seed_palette(sample, random, palette);
    const double cost = improve(sample, kSampleRounds, codes, palette);
    if (best.empty() || cost < least) best = palette, least = cost;
    if (cost == 0.0) break;
  }
  return best;
}

}  // namespace

VectorPalettization palettize_vectors(MatrixView<const float> w, MatrixView<const float> weights,
                                      const VectorPaletteOptions& options) {
  require_valid(w, weights, options);
  const std::size_t group_rows = options.group_rows == 0 ? w.rows() : options.group_rows;
  const std::size_t groups = divide_up(w.rows(), group_rows), per_row = w.cols() / options.dim;
  VectorPalettization result;
  result.palettes = Matrix<float>(groups, (std::size_t{1} << options.bits) * options.dim);
  result.codes = Matrix<std::uint8_t>(w.rows(), per_row);
  std::vector<double> costs(groups);
  const auto fit = [&](std::size_t group) {
    const std::size_t begin = group * group_rows, count = std::min(group_rows, w.rows() - begin);
    const WeightedVectors vectors = vectors_of(
        w.rows_slice(begin, count), weights.empty() ? weights : weights.rows_slice(begin, count), options.dim);
    Random random(options.seed + group);
    const auto codes = result.codes.values().subspan(begin * per_row, count * per_row);
    std::vector<float> fitted = best_start(vectors, options, random);
    improve(vectors, kMostRounds, codes, fitted);
    round_palette(fitted, options.palette_dtype, group);
    costs[group] = assign_vectors(vectors, fitted, codes).cost;
    std::copy(fitted.begin(), fitted.end(), result.palettes.row(group).begin());
  };
  if (groups == 1) {
    fit(0);  // its tiles run on all threads
  } else {
    parallel_for(groups, fit);
  }
  for (const double cost : costs) result.cost += cost;
  return result;
}

}  // namespace nibble::quant
