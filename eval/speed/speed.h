#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/progress.h"
#include "model/transformer/cache/cache_options.h"
#include "model/transformer/transformer.h"

namespace nibble::eval {

struct SpeedOptions {
  /// Tokens of the prompt, and generated ones after the first.
  std::size_t prompt = 512, generate = 128;
  /// Room of the cache, in positions (of `window`: what a call sees). 0: prompt + generate + 1.
  std::size_t context = 0;
  std::size_t warm_up = 1, repeat = 5;  ///< runs that do not count, and those after them that do
  model::CacheOptions cache = {};
  model::ForwardOptions forward = {};
  std::uint64_t seed = 0;  ///< of the prompt's tokens
  ProgressSink progress = {};
};

/// Median of the runs, and the slowest and fastest.
struct Spread {
  double median = 0.0, min = 0.0, max = 0.0;
};

struct SpeedResult {
  Spread first_token_seconds;  ///< from an empty cache to the first generated token: prompt, head, choice
  Spread tokens_per_second;    ///< of the `generate` tokens after it, one by one
  std::size_t context = 0;     ///< as used
  std::uint64_t cache_bytes = 0;
};

/// How much of a prompt and of generation fits a context: prompt + generate + 1 <= context.
struct Fit {
  std::size_t prompt = 0, generate = 0;
};
/// Generation is cut to half the context, then the prompt to what is left; without a `prompt`, it fills what is left.
/// Who asked for more is to be told.
/// Throws InvalidArgument for a context below 4.
Fit fit_context(std::size_t context, std::optional<std::size_t> prompt, std::size_t generate);

/// What to measure: `options` once for each of `contexts`, with `generate` and the prompt as fit_context() says, or
/// just as they are without contexts (`prompt` then instead of theirs, if given). Throws as fit_context() does.
std::vector<SpeedOptions> at_contexts(const SpeedOptions& options, std::span<const std::size_t> contexts,
                                      std::optional<std::size_t> prompt);

/// What a user calls the sizes: options of the command line, or keys of a sweep.
struct SpeedSizeNames {
  std::string_view context, prompt, generate, window_context, window_chunk;
};

/// Throws InvalidArgument in the user's words, before anything is measured, when `options` ask for more positions than
/// the model has learned, or a window has no room beside its chunk.
void require_room(const SpeedOptions& options, const model::Architecture& architecture, const SpeedSizeNames& names);

/// Time to the first token and extend throughput of greedy decoding after a prompt of random tokens; stop tokens do not
/// stop it. Throws InvalidArgument: prompt, generate or repeat 0, more tokens than the context takes, or as
/// make_sequence() does.
SpeedResult measure_speed(const model::Model& model, const SpeedOptions& options);

/// Of at least one value.
Spread spread_of(std::vector<double> values);

}  // namespace nibble::eval
