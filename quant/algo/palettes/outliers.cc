#include "quant/algo/palettes/outliers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/machine/large_buffer.h"

namespace nibble::quant {
namespace {

/// Marks the `count` places of largest score among those that are not marked, of equal ones the first.
template <class Score>
void mark_largest(LargeVector<std::uint8_t>& marked, std::size_t count, const Score& score) {
  if (count == 0) return;
  LargeVector<double> scores;
  scores.reserve(marked.size());
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i] != 0) continue;
    scores.push_back(score(i));
    NIBBLE_REQUIRE(std::isfinite(scores.back()), NumericalError,
                   "outliers: a score of {} at index {}: are the sensitivities finite?", scores.back(), i);
  }
  const auto last = scores.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
  const double least = *last;
  auto equal_ones = count - static_cast<std::size_t>(
                                std::count_if(scores.begin(), last, [&](double value) { return value > least; }));
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i] != 0) continue;
    const double value = score(i);
    if (value == least && equal_ones > 0) {
      marked[i] = 1;
      --equal_ones;
    } else if (value > least) {
      marked[i] = 1;
    }
  }
}

}  // namespace

Outliers find_outliers(MatrixView<const float> w, MatrixView<const double> sensitivities, double sensitive,
                       double large) {
  NIBBLE_REQUIRE(sensitive >= 0.0 && large >= 0.0 && sensitive + large < 1.0, InvalidArgument,
                 "outliers: expected shares of at least 0 that sum to less than 1, got {} and {}", sensitive, large);
  NIBBLE_REQUIRE(sensitive == 0.0 || (sensitivities.rows() == w.rows() && sensitivities.cols() == w.cols()),
                 InvalidArgument, "outliers: weights are ({}, {}) but sensitivities ({}, {})", w.rows(), w.cols(),
                 sensitivities.rows(), sensitivities.cols());
  const std::size_t weights = w.rows() * w.cols();
  NIBBLE_REQUIRE((sensitive + large) * static_cast<double>(weights) < std::numeric_limits<std::int32_t>::max(),
                 InvalidArgument, "outliers: more than 2^31 - 1 of {} weights", weights);
  const auto count = [&](double share) { return static_cast<std::size_t>(share * static_cast<double>(weights)); };
  LargeVector<std::uint8_t> marked(weights);
  mark_largest(marked, count(sensitive), [&](std::size_t i) { return sensitivities(i / w.cols(), i % w.cols()); });
  mark_largest(marked, count(large),
               [&](std::size_t i) { return std::abs(static_cast<double>(w(i / w.cols(), i % w.cols()))); });
  Outliers outliers;
  outliers.rows.push_back(0);
  for (std::size_t i = 0; i < w.rows(); ++i) {
    for (std::size_t j = 0; j < w.cols(); ++j)
      if (marked[i * w.cols() + j] != 0) outliers.columns.push_back(static_cast<std::int32_t>(j));
    outliers.rows.push_back(static_cast<std::int32_t>(outliers.columns.size()));
  }
  return outliers;
}

SparseValues values_at(Outliers places, MatrixView<const float> w) {
  SparseValues kept{std::move(places), {}};
  for (std::size_t i = 0; i < w.rows(); ++i)
    for (auto at = static_cast<std::size_t>(kept.places.rows[i]);
         at < static_cast<std::size_t>(kept.places.rows[i + 1]); ++at)
      kept.values.push_back(w(i, static_cast<std::size_t>(kept.places.columns[at])));
  return kept;
}

void mask_outliers(const Outliers& outliers, MatrixView<float> values) {
  for (std::size_t i = 0; i < values.rows(); ++i)
    for (auto at = static_cast<std::size_t>(outliers.rows[i]); at < static_cast<std::size_t>(outliers.rows[i + 1]);
         ++at)
      values(i, static_cast<std::size_t>(outliers.columns[at])) = 0.0f;
}

}  // namespace nibble::quant
