#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/random.h"
#include "model/tokenizer/tokenizer.h"

namespace nibble::cli {

struct SamplingOptions {
  double temperature = 0.0;  ///< 0: greedy
  std::uint64_t top_k = 0;   ///< only the k likeliest tokens; 0: all
  double top_p = 1.0;        ///< only the fewest tokens, likeliest first, whose probabilities reach p
  std::uint64_t seed = 0;
};

/// Picks the next token from logits z: at temperature 0 the largest (the lowest id among equals), otherwise from
/// softmax(z / temperature), cut by top-k and then by top-p, as is usual. The same seed and logits give the same tokens
/// everywhere. Cost O(vocabulary) greedy, O(vocabulary log vocabulary) otherwise.
class Sampler {
 public:
  /// Throws InvalidArgument: temperature below 0, top-p outside (0, 1].
  explicit Sampler(const SamplingOptions& options);
  /// Throws NumericalError when a logit is NaN. Requires at least one logit.
  model::TokenId pick(std::span<const float> logits);

 private:
  SamplingOptions options_;
  Random random_;
  std::vector<std::pair<double, model::TokenId>> candidates_;  // (weight, id), scratch
};

}  // namespace nibble::cli
