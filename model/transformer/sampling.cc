#include "model/transformer/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "model/transformer/cache/sequence.h"
#include "model/transformer/row_ops.h"

namespace nibble::model {
namespace {

void check(const SamplingOptions& options) {
  NIBBLE_REQUIRE(options.temperature >= 0.0 && std::isfinite(options.temperature), InvalidArgument,
                 "sampling: expected a finite temperature of at least 0, got {}", options.temperature);
  NIBBLE_REQUIRE(options.top_p > 0.0 && options.top_p <= 1.0, InvalidArgument,
                 "sampling: expected top_p above 0 and at most 1, got {}", options.top_p);
}

// The id of the largest logit, of equal ones the lowest: the block that holds it by vectors, then its place in there.
TokenId first_largest(std::span<const float> logits) {
  constexpr std::size_t kBlock = 4096;
  std::size_t block = 0;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t first = 0; first < logits.size(); first += kBlock) {
    const float here = max_real(logits.data() + first, std::min(kBlock, logits.size() - first));
    if (here > largest) {
      largest = here;
      block = first;
    }
  }
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(block);
  const auto found = std::find(begin, logits.end(), largest);
  return found == logits.end() ? 0 : static_cast<TokenId>(found - logits.begin());
}

// The ids that top_k leaves, largest logit first; in id order when there is nothing to sort for.
std::vector<TokenId> candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), TokenId{0});
  const std::size_t kept = options.top_k == 0 ? ids.size() : std::min(options.top_k, ids.size());
  if (kept == ids.size() && options.top_p >= 1.0) return ids;
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(),
                    [&](TokenId a, TokenId b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  ids.resize(kept);
  return ids;
}

}  // namespace

TokenId sample_token(std::span<const float> logits, const SamplingOptions& options, Random& random) {
  check(options);
  NIBBLE_REQUIRE(!logits.empty(), InvalidArgument, "sampling: expected at least one logit");
  const TokenId largest = first_largest(logits);
  if (options.temperature <= 0.0) return largest;

  const std::vector<TokenId> ids = candidates(logits, options);
  std::vector<double> cumulative;  // not normalised
  cumulative.reserve(ids.size());
  double total = 0.0;
  for (const TokenId id : ids) {
    total += std::exp((static_cast<double>(logits[id]) - static_cast<double>(logits[largest])) / options.temperature);
    cumulative.push_back(total);
  }
  const auto first_reaching = [&](double mass) {
    return std::lower_bound(cumulative.begin(), cumulative.end() - 1, mass) - cumulative.begin();
  };
  const double kept_mass = cumulative[static_cast<std::size_t>(first_reaching(options.top_p * total))];
  // 1 - uniform lies in (0, 1], so a candidate of probability 0 is never hit.
  return ids[static_cast<std::size_t>(first_reaching((1.0 - random.uniform()) * kept_mass))];
}

CacheOptions cache_for(const Architecture& architecture, std::size_t prompt_size, const GenerateOptions& options) {
  CacheOptions cache = options.cache;
  const std::size_t prompt = std::min(prompt_size, architecture.max_positions);
  // The last token drawn is never run.
  const std::size_t further = std::max<std::size_t>(1, options.max_tokens) - 1;
  if (cache.capacity == 0) cache.capacity = prompt + std::min(architecture.max_positions - prompt, further);
  return cache;
}

std::vector<TokenId> generate(const Model& model, std::span<const TokenId> prompt, const GenerateOptions& options,
                              const std::function<void(TokenId)>& on_token) {
  const Architecture& architecture = model.architecture();
  check(options.sampling);
  NIBBLE_REQUIRE(!prompt.empty(), InvalidArgument, "generate: expected a prompt of at least one token");
  NIBBLE_REQUIRE(prompt.size() <= architecture.max_positions, InvalidArgument,
                 "generate: the prompt has {} tokens, but the model has {} positions", prompt.size(),
                 architecture.max_positions);
  std::vector<TokenId> generated;
  if (options.max_tokens == 0) return generated;

  const auto sequence = make_sequence(model, cache_for(architecture, prompt.size(), options));
  Random random(options.seed);
  TokenId next = 0;
  const LogitSink<float> draw = [&](std::span<const std::size_t>, MatrixView<const float> logits) {
    next = sample_token(logits.row(0), options.sampling, random);
  };
  sequence->extend(prompt, 1, draw, options.forward);
  while (true) {
    generated.push_back(next);
    if (on_token) on_token(next);
    const auto& stops = architecture.stop_tokens;
    if (std::find(stops.begin(), stops.end(), next) != stops.end()) break;
    if (generated.size() == options.max_tokens || sequence->length() == sequence->capacity()) break;
    sequence->extend({&generated.back(), 1}, 1, draw, options.forward);
  }
  return generated;
}

}  // namespace nibble::model
