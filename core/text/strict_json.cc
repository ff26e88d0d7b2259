#include "core/text/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"

namespace nibble {

nlohmann::json parse_strict_json(std::string_view text, std::string_view what) {
  using Event = nlohmann::json::parse_event_t;
  constexpr std::size_t kMaxDepth = 64;
  std::vector<std::set<std::string>> keys;  // of the objects that are open, outermost first
  std::size_t depth = 0;
  const auto check = [&](int, Event event, nlohmann::json& parsed) {
    switch (event) {
      case Event::object_start:
        keys.emplace_back();
        [[fallthrough]];
      case Event::array_start:
        NIBBLE_REQUIRE(++depth <= kMaxDepth, FormatError, "{}: JSON is nested more than {} deep", what, kMaxDepth);
        break;
      case Event::object_end:
        keys.pop_back();
        [[fallthrough]];
      case Event::array_end:
        --depth;
        break;
      case Event::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        NIBBLE_REQUIRE(keys.back().insert(key).second, FormatError, "{}: duplicate key '{}'", what, key);
        break;
      }
      case Event::value:
        break;
    }
    return true;
  };
  NIBBLE_REQUIRE(text.find('\0') == std::string_view::npos, FormatError,  // the parser would take it for the end
                 "{}: not valid JSON: it contains a zero byte", what);
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(fmt::format("{}: not valid JSON: {}", what, error.what()));
  }
}

}  // namespace nibble
