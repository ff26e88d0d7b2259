#include "quant/job/statistics/calibration_text.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace nibble::quant {
namespace {

// Calls action(position, hash of the run that begins there) for all runs of a window.
template <class Action>
void for_each_run(const CalibrationText& text, std::size_t window, const Action& action) {
  const TokenId* tokens = text.tokens.data() + window * text.window_tokens;
  for (std::size_t begin = 0; begin + kRepeatedRun <= text.window_tokens; ++begin) {
    const std::string_view run(reinterpret_cast<const char*>(tokens + begin), kRepeatedRun * sizeof(TokenId));
    action(begin, std::hash<std::string_view>{}(run));
  }
}

}  // namespace

double repeated_share(const CalibrationText& text, std::span<const std::size_t> of, std::span<const std::size_t> in) {
  std::vector<std::size_t> hashes;
  for (const std::size_t window : in)
    for_each_run(text, window, [&](std::size_t, std::size_t hash) { hashes.push_back(hash); });
  std::sort(hashes.begin(), hashes.end());
  std::size_t repeated = 0;
  for (const std::size_t window : of) {
    std::size_t counted = 0;  // tokens of the window that were looked at
    for_each_run(text, window, [&](std::size_t begin, std::size_t hash) {
      if (!std::binary_search(hashes.begin(), hashes.end(), hash)) return;
      repeated += begin + kRepeatedRun - std::max(begin, counted);
      counted = begin + kRepeatedRun;
    });
  }
  return of.empty() ? 0.0 : static_cast<double>(repeated) / static_cast<double>(of.size() * text.window_tokens);
}

CalibrationText CalibrationText::first_and_last(std::size_t first, std::size_t last) const {
  CalibrationText some = *this;
  const auto between = static_cast<std::ptrdiff_t>((first > 0 ? first : windows() - last) * window_tokens);
  some.tokens.erase(some.tokens.begin() + between,
                    some.tokens.end() - static_cast<std::ptrdiff_t>(last * window_tokens));
  return some;
}

CalibrationText CalibrationText::of_statistics(std::size_t held_out) const {
  return first_and_last(statistics_windows > 0 ? statistics_windows : windows() - held_out, 0);
}

void check_windows(const CalibrationText& text, const model::Architecture& architecture, std::string_view what,
                   std::size_t least) {
  NIBBLE_REQUIRE(text.window_tokens >= least && !text.tokens.empty() && text.tokens.size() % text.window_tokens == 0,
                 InvalidArgument, "{}: {} tokens are no whole number of windows of {}, which is {} or more", what,
                 text.tokens.size(), text.window_tokens, least);
  NIBBLE_REQUIRE(text.window_tokens <= architecture.position_limit(), InvalidArgument,
                 "{}: windows of {} tokens, but the model has learned {} positions; give shorter ones (--length)", what,
                 text.window_tokens, architecture.max_positions);
  const auto bad = std::find_if(text.tokens.begin(), text.tokens.end(),
                                [&](TokenId token) { return token >= architecture.vocabulary; });
  NIBBLE_REQUIRE(bad == text.tokens.end(), InvalidArgument, "{}: token {} of a vocabulary of {}", what, *bad,
                 architecture.vocabulary);
}

}  // namespace nibble::quant
