#include "eval/quality/compare_logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace nibble::eval {
namespace {

Matrix<float> prompt_logits(const model::Model& model, std::span<const TokenId> tokens,
                            const model::ForwardOptions& options) {
  Matrix<float> logits(tokens.size(), model.architecture().vocabulary);
  const std::size_t starts[] = {0, tokens.size()};
  std::vector<std::size_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const auto keep = [&](std::span<const std::size_t> chunk, MatrixView<const float> values) {
    for (std::size_t i = 0; i < chunk.size(); ++i)
      std::copy_n(values.row(i).data(), values.cols(), logits.row(chunk[i]).data());
  };
  model.forward({tokens, starts}, rows, keep, options);
  return logits;
}

double largest_difference(std::span<const float> actual, std::span<const float> expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(difference)) return difference;
  }
  return largest;
}

// A NaN is worse than any number.
bool worse(double a, double b) { return !std::isnan(b) && !(a <= b); }

}  // namespace

std::vector<Cut> cuts_of(std::span<const std::size_t> chunks, std::size_t tokens) {
  std::vector<Cut> cuts;
  for (const std::size_t chunk : chunks) cuts.push_back({fmt::format("{}", chunk), {chunk}});
  cuts.push_back({"mixed", {5, 1, 33, 2, 64, 1, 7}});
  cuts.push_back({"all", {tokens}});
  return cuts;
}

std::vector<LogitDifferences> compare_logits(const model::Model& model, std::span<const TokenId> tokens,
                                             std::span<const ComparedCache> caches, std::span<const Cut> cuts,
                                             const model::ForwardOptions& options, const ProgressSink& progress) {
  const Matrix<float> expected = prompt_logits(model, tokens, options);
  std::vector<LogitDifferences> results;
  for (const ComparedCache& cache : caches) {
    const auto sequence = cache.make();
    for (const Cut& cut : cuts) {
      sequence->reset();
      LogitDifferences result{.cache = cache.name, .cut = cut.name, .exact = cache.exact};
      result.by_position.assign(tokens.size(), std::numeric_limits<double>::quiet_NaN());
      for (std::size_t first = 0, call = 0; first < tokens.size(); ++call) {
        const auto part =
            tokens.subspan(first, std::min(cut.lengths[call % cut.lengths.size()], tokens.size() - first));
        const auto compare = [&](std::span<const std::size_t> rows, MatrixView<const float> logits) {
          for (std::size_t i = 0; i < rows.size(); ++i)
            result.by_position[first + rows[i]] = largest_difference(logits.row(i), expected.row(first + rows[i]));
        };
        sequence->extend(part, part.size(), compare, options);
        first += part.size();
      }
      for (std::size_t i = 0; i < tokens.size(); ++i)
        if (worse(result.by_position[i], result.by_position[result.worst_position])) result.worst_position = i;
      if (!tokens.empty()) result.largest = result.by_position[result.worst_position];
      results.push_back(std::move(result));
      if (progress)
        progress({"compare-logits", static_cast<double>(results.size()),
                  static_cast<double>(caches.size() * cuts.size()), "runs"});
    }
  }
  return results;
}

}  // namespace nibble::eval
