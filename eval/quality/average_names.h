#pragma once

#include <array>

#include "core/text/choice.h"
#include "eval/quality/perplexity_options.h"

namespace nibble::eval {

inline constexpr std::array<Choice<Average>, 2> kAverages = {
    {{"windows", Average::kWindows}, {"tokens", Average::kTokens}}};

}  // namespace nibble::eval
