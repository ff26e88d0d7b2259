#include "quant/job/statistics/calibration_text.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::quant {

CalibrationText CalibrationText::without_last(std::size_t count) const {
  CalibrationText shorter = *this;
  shorter.tokens.resize((windows() - std::min(count, windows())) * window_tokens);
  return shorter;
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
