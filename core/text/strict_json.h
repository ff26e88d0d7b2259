#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace nibble {

/// Parses JSON from a stranger: UTF-8, no duplicate keys in any object (a plain DOM hides them), nesting at most 64
/// deep, nothing after the value. `what` names the source in messages ("config.json of '…'"). Throws FormatError with
/// position and reason.
nlohmann::json parse_strict_json(std::string_view text, std::string_view what);

}  // namespace nibble
