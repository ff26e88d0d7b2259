#include "cli/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::cli {

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
  NIBBLE_REQUIRE(options.temperature >= 0.0 && std::isfinite(options.temperature), InvalidArgument,
                 "temperature: expected a number of at least 0, got {}", options.temperature);
  NIBBLE_REQUIRE(options.top_p > 0.0 && options.top_p <= 1.0, InvalidArgument,
                 "top-p: expected a number above 0 and at most 1, got {}", options.top_p);
}

model::TokenId Sampler::pick(std::span<const float> logits) {
  for (std::size_t id = 0; id < logits.size(); ++id)
    NIBBLE_REQUIRE(!std::isnan(logits[id]), NumericalError, "the logit of token {} is NaN", id);
  const auto largest = std::max_element(logits.begin(), logits.end());  // the first of equals
  if (options_.temperature == 0.0) return static_cast<model::TokenId>(largest - logits.begin());

  const auto maximum = static_cast<double>(*largest);
  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double weight = std::exp((static_cast<double>(logits[id]) - maximum) / options_.temperature);
    candidates_.emplace_back(weight, static_cast<model::TokenId>(id));
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  if (options_.top_k > 0 && options_.top_k < candidates_.size())
    candidates_.resize(static_cast<std::size_t>(options_.top_k));
  double total = 0.0;
  for (const auto& candidate : candidates_) total += candidate.first;
  if (options_.top_p < 1.0) {
    double kept = 0.0;
    std::size_t count = 0;
    while (count < candidates_.size() && kept < options_.top_p * total) kept += candidates_[count++].first;
    candidates_.resize(count);
    total = kept;
  }
  double left = random_.uniform() * total;
  for (const auto& [weight, id] : candidates_) {
    left -= weight;
    if (left < 0.0) return id;
  }
  return candidates_.front().second;  // rounding left a crumb
}

}  // namespace nibble::cli
