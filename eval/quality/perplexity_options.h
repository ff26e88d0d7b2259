#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/progress.h"
#include "datasets/eval_windows.h"
#include "model/transformer/transformer.h"

namespace nibble::eval {

/// How windows are averaged into one NLL (`sliding` only; docs/protocols.md).
enum class Average { kWindows, kTokens };

struct PerplexityOptions {
  datasets::Protocol protocol = datasets::Protocol::kSliding;
  std::size_t context = 0;  ///< 0: the model's max_positions
  std::size_t stride = 0;   ///< 0: context / 2 (sliding)
  Average average = Average::kWindows;
  std::optional<TokenId> bos = {};  ///< replaces the first token of each window: window_bos()
  /// Where each of several texts ends that stand behind each other in the tokens; windows never reach from one into the
  /// next. Empty: one text.
  std::vector<std::size_t> text_ends = {};
  std::size_t batch_tokens = 2048;  ///< windows are run together up to about this many tokens
  model::ForwardOptions forward = {};
  std::function<std::size_t(TokenId)> byte_length = {};  ///< for bits per byte; empty: not computed (NaN)
  ProgressSink progress = {};                            ///< in tokens run
};

struct PerplexityResult {
  double perplexity = 0.0;
  /// perplexity · sd(window means) / √windows; averaged over tokens, perplexity · the error of weighted_mean() of the
  /// windows by their tokens; `half`: perplexity · sd(token NLLs) / √(tokens - 1). sd is the sample's (n - 1). NaN
  /// where there is a single one.
  double perplexity_stderr = 0.0;
  double nll_nats_per_token = 0.0;  ///< ln(perplexity)
  double bits_per_byte = 0.0;       ///< total scored NLL / ln 2 over the bytes of the scored tokens
  std::uint64_t tokens_scored = 0;
  std::uint64_t tokens_run = 0;
  double tokens_per_second = 0.0;  ///< tokens run through the network per second of wall time
  std::size_t windows = 0;
  std::vector<double> window_nll;            ///< mean NLL of each window, nats
  std::vector<std::uint64_t> window_tokens;  ///< scored in each window
};

}  // namespace nibble::eval
