#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/random.h"
#include "model/transformer/cache/cache_options.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// How the next token is drawn from softmax(logits / temperature). Temperature 0 is greedy: the largest logit, of equal
/// ones the lowest id. Otherwise the top_k largest are kept (0: all), and of those the fewest that together have at
/// least top_p of their probability.
struct SamplingOptions {
  double temperature = 0.0;
  std::size_t top_k = 0;
  double top_p = 1.0;
};

/// One draw; takes one number from `random` unless greedy. Requires at least one logit.
/// Throws InvalidArgument: temperature negative or not finite, top_p outside (0, 1].
TokenId sample_token(std::span<const float> logits, const SamplingOptions& options, Random& random);

struct GenerateOptions {
  SamplingOptions sampling = {};
  std::size_t max_tokens = 64;
  std::uint64_t seed = 0;
  ForwardOptions forward = {};
  CacheOptions cache = {};  ///< see cache_for()
};

/// options.cache with its capacity filled in: if 0, for the prompt and max_tokens, at most max_positions.
CacheOptions cache_for(const Architecture& architecture, std::size_t prompt_size, const GenerateOptions& options);

/// Continues `prompt` token by token and returns the new tokens. Ends after max_tokens, after a stop token of the
/// config (which is returned too), or when the cache is full, which a window over rotary positions never is. `on_token`
/// (may be empty) sees each token as it comes. Memory: cache_bytes(). Throws InvalidArgument for an empty prompt and
/// one longer than max_positions.
std::vector<TokenId> generate(const Model& model, std::span<const TokenId> prompt, const GenerateOptions& options,
                              const std::function<void(TokenId)>& on_token = {});

}  // namespace nibble::model
