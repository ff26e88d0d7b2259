#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble::eval {

/// What a text is for: where settings are chosen on one, its figures say little of others.
inline constexpr std::array<std::string_view, 3> kTextUses = {"calibration", "validation", "test"};

/// One of kTextUses, or empty where nothing is said. Throws InvalidArgument naming `option` and the nearest.
inline const std::string& checked_text_use(std::string_view option, const std::string& use) {
  if (use.empty() || std::ranges::find(kTextUses, use) != kTextUses.end()) return use;
  throw InvalidArgument(fmt::format("{}: expected {} or {}, got '{}'{}", option,
                                    fmt::join(kTextUses.begin(), kTextUses.end() - 1, ", "), kTextUses.back(), use,
                                    did_you_mean(use, kTextUses)));
}

}  // namespace nibble::eval
