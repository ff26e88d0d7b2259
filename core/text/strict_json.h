#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

/// Parses JSON from a stranger: UTF-8, no duplicate keys in any object (a plain DOM hides them), nesting at most 64
/// deep, nothing after the value. `what` names the source in messages ("config.json of '…'"). Throws FormatError with
/// position and reason.
nlohmann::json parse_strict_json(std::string_view text, std::string_view what);

/// Of what the JSON library says of text that is none: without its own names, and without what it last read, which may
/// be a whole document.
std::string json_error_text(std::string_view said);

/// What strict_json_text() found of one member.
struct JsonText {
  enum class Kind { kAbsent, kText, kOther } kind = Kind::kAbsent;
  std::string text;               ///< of kText
  std::vector<std::string> keys;  ///< the first few of the object's
  std::size_t key_count = 0;
};
/// The text in the member `name` of a JSON object, which is checked as by parse_strict_json(). Nothing else of it is
/// kept, of which a document may have forty times its size. Throws FormatError, also for what is no object.
JsonText strict_json_text(std::string_view text, std::string_view name, std::string_view what);

}  // namespace nibble
