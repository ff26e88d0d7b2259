#include "quant/job/statistics/calibration_text.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::quant {

CalibrationText CalibrationText::without_last(std::size_t count) const {
  CalibrationText shorter = *this;
  shorter.tokens.resize((windows() - std::min(count, windows())) * window_tokens);
  return shorter;
}

void check_windows(const CalibrationText& text, const model::Architecture& architecture, std::string_view what) {
  NIBBLE_REQUIRE(text.window_tokens >= 2 && !text.tokens.empty() && text.tokens.size() % text.window_tokens == 0,
                 InvalidArgument, "{}: {} tokens are no whole number of windows of {}, which is 2 or more", what,
                 text.tokens.size(), text.window_tokens);
  const auto bad = std::find_if(text.tokens.begin(), text.tokens.end(),
                                [&](TokenId token) { return token >= architecture.vocabulary; });
  NIBBLE_REQUIRE(bad == text.tokens.end(), InvalidArgument, "{}: token {} of a vocabulary of {}", what, *bad,
                 architecture.vocabulary);
}

}  // namespace nibble::quant
