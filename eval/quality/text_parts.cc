#include "eval/quality/text_parts.h"

#include <numeric>
#include <span>

#include "core/weighted_mean.h"

namespace nibble::eval {

std::vector<TextPart> text_parts(const TextQuality& quality, const PerplexityOptions& options, std::size_t tokens,
                                 std::size_t max_positions) {
  const std::vector<datasets::Window> windows = protocol_windows(options, tokens, max_positions);
  const bool over_windows = options.protocol != datasets::Protocol::kHalf && options.average == Average::kWindows;
  std::vector<std::size_t> ends = options.text_ends;
  if (ends.empty()) ends = {tokens};
  std::vector<TextPart> parts;
  std::size_t begin = 0, first = 0;
  for (const std::size_t end : ends) {
    std::size_t count = 0;
    while (first + count < windows.size() && windows[first + count].end <= end) ++count;
    const auto of_text = [&](const auto& per_window) { return std::span(per_window).subspan(first, count); };
    const auto scored = of_text(quality.perplexity.window_tokens);
    const auto estimate = [&](const std::vector<double>& per_window, std::span<const std::uint64_t> weights) {
      const WeightedMean mean = weighted_mean(of_text(per_window), weights);
      return Estimate{mean.mean, mean.standard_error};
    };
    TextPart part{.tokens = end - begin,
                  .tokens_scored = std::accumulate(scored.begin(), scored.end(), std::uint64_t{0}),
                  .windows = count,
                  .nll = estimate(quality.perplexity.window_nll, over_windows ? decltype(scored){} : scored),
                  .kl = {}};
    if (quality.comparison) part.kl = estimate(quality.comparison->window_kl, scored);
    parts.push_back(part);
    begin = end;
    first += count;
  }
  return parts;
}

}  // namespace nibble::eval
