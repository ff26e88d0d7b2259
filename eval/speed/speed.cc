#include "eval/speed/speed.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/random.h"
#include "model/transformer/cache/sequence.h"
#include "model/transformer/sampling.h"

namespace nibble::eval {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Appends `tokens` and returns the greedy choice after them.
TokenId next_token(model::Sequence<float>& sequence, std::span<const TokenId> tokens,
                   const model::ForwardOptions& options) {
  TokenId next = 0;
  Random unused(0);  // greedy draws nothing
  sequence.extend(
      tokens, 1, [&](auto, MatrixView<const float> logits) { next = model::sample_token(logits.row(0), {}, unused); },
      options);
  return next;
}

model::CacheOptions cache_of(const SpeedOptions& options) {
  model::CacheOptions cache = options.cache;
  const std::size_t context = options.context != 0 ? options.context : options.prompt + options.generate + 1;
  if (cache.kind != model::CacheKind::kWindow) {
    cache.capacity = context;
  } else if (options.context != 0) {
    cache.context = context;
  }
  return cache;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  return {median, values.front(), values.back()};
}

Fit fit_context(std::size_t context, std::optional<std::size_t> prompt, std::size_t generate) {
  NIBBLE_REQUIRE(context >= 4, InvalidArgument, "speed: expected a context of at least 4 tokens, got {}", context);
  Fit fit;
  fit.generate = std::min(generate, context / 2);
  const std::size_t left = context - fit.generate - 1;
  fit.prompt = std::min(prompt.value_or(left), left);
  return fit;
}

std::vector<SpeedOptions> at_contexts(const SpeedOptions& options, std::span<const std::size_t> contexts,
                                      std::optional<std::size_t> prompt) {
  std::vector<SpeedOptions> all;
  for (const std::size_t context : contexts) {
    const Fit fit = fit_context(context, prompt, options.generate);
    all.push_back(options);
    all.back().context = context;
    all.back().prompt = fit.prompt;
    all.back().generate = fit.generate;
  }
  if (!contexts.empty()) return all;
  all.push_back(options);
  all.back().prompt = prompt.value_or(options.prompt);
  return all;
}

void require_room(const SpeedOptions& options, const model::Architecture& architecture, const SpeedSizeNames& names) {
  const model::CacheOptions cache = cache_of(options);
  const bool window = cache.kind == model::CacheKind::kWindow;
  const bool named = options.context > 0;
  const std::string_view context = named ? names.context : names.window_context;
  NIBBLE_REQUIRE(!window || cache.context > cache.chunk, InvalidArgument, "{} {}: expected more than {}, {}", context,
                 cache.context, names.window_chunk, cache.chunk);
  // A window slides over any number of positions, but learned ones end where they end.
  const std::size_t limit = architecture.position_limit();
  NIBBLE_REQUIRE(window || options.context <= limit, InvalidArgument, "{} {}: the model has {} positions",
                 names.context, options.context, limit);
  const std::size_t needed = options.prompt + options.generate + (window ? 0 : 1);
  NIBBLE_REQUIRE(!named || !window || needed <= limit, InvalidArgument,
                 "{} {}: a prompt and tokens generated behind it take {} positions, the model has {}", names.context,
                 options.context, needed, limit);
  NIBBLE_REQUIRE(named || needed <= limit, InvalidArgument, "{} {} and {} {} need {} positions, the model has {}",
                 names.prompt, options.prompt, names.generate, options.generate, needed, limit);
}

SpeedResult measure_speed(const model::Model& model, const SpeedOptions& options) {
  NIBBLE_REQUIRE(options.prompt > 0 && options.generate > 0 && options.repeat > 0, InvalidArgument,
                 "speed: prompt, generate and repeat must be at least 1, got {}, {}, {}", options.prompt,
                 options.generate, options.repeat);
  const model::CacheOptions cache = cache_of(options);
  const auto sequence = model::make_sequence(model, cache);
  NIBBLE_REQUIRE(options.prompt + options.generate <= sequence->capacity(), InvalidArgument,
                 "speed: a prompt of {} and {} generated tokens do not fit a context of {}", options.prompt,
                 options.generate, sequence->capacity());
  Random random(options.seed);
  std::vector<TokenId> prompt(options.prompt);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random.below(model.architecture().vocabulary));

  std::vector<double> first_token, rate;
  for (std::size_t run = 0; run < options.warm_up + options.repeat; ++run) {
    sequence->reset();
    const auto start = Clock::now();
    TokenId token = next_token(*sequence, prompt, options.forward);
    const auto first = Clock::now();
    for (std::size_t i = 0; i < options.generate; ++i) token = next_token(*sequence, {&token, 1}, options.forward);
    const auto end = Clock::now();
    if (options.progress)
      options.progress(
          {"speed", static_cast<double>(run + 1), static_cast<double>(options.warm_up + options.repeat), "runs"});
    if (run < options.warm_up) continue;
    first_token.push_back(seconds_between(start, first));
    rate.push_back(static_cast<double>(options.generate) / seconds_between(first, end));
  }
  SpeedResult result;
  result.first_token_seconds = spread_of(std::move(first_token));
  result.tokens_per_second = spread_of(std::move(rate));
  result.context = cache.kind == model::CacheKind::kWindow ? cache.context : cache.capacity;
  result.cache_bytes = sequence->bytes();
  return result;
}

}  // namespace nibble::eval
