#include "model/tokenizer/files/json_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {

JsonFields::JsonFields(const nlohmann::json& json, std::string where) : json_(json), where_(std::move(where)) {
  NIBBLE_REQUIRE(json_.is_object(), FormatError, "{}: expected an object, got {}", where_, json_.type_name());
}

void JsonFields::allow_only(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : json_.items()) {
    NIBBLE_REQUIRE(std::find(names.begin(), names.end(), name) != names.end(), FormatError,
                   "{}: the field {} is not supported", where_, in_quotes(name));
  }
}

bool JsonFields::has(const char* name) const {
  const auto field = json_.find(name);
  return field != json_.end() && !field->is_null();
}

const nlohmann::json& JsonFields::any(const char* name) const {
  const auto field = json_.find(name);
  NIBBLE_REQUIRE(field != json_.end(), FormatError, "{}: the field '{}' is missing", where_, name);
  return *field;
}

const nlohmann::json& JsonFields::array(const char* name) const {
  const auto& value = any(name);
  NIBBLE_REQUIRE(value.is_array(), FormatError, "{}: '{}' must be an array, got {}", where_, name, value.type_name());
  return value;
}

JsonFields JsonFields::object(const char* name) const {
  return JsonFields(any(name), fmt::format("{}: {}", where_, name));
}

const std::string& JsonFields::text(const char* name) const {
  const auto& value = any(name);
  NIBBLE_REQUIRE(value.is_string(), FormatError, "{}: '{}' must be a string, got {}", where_, name, value.type_name());
  return value.get_ref<const std::string&>();
}

const std::string& JsonFields::filled_text(const char* name) const {
  const std::string& value = text(name);
  NIBBLE_REQUIRE(!value.empty(), FormatError, "{}: '{}' must not be empty", where_, name);
  return value;
}

bool JsonFields::boolean(const char* name) const {
  const auto& value = any(name);
  NIBBLE_REQUIRE(value.is_boolean(), FormatError, "{}: '{}' must be true or false, got {}", where_, name,
                 value.type_name());
  return value.get<bool>();
}

std::uint64_t JsonFields::count(const char* name) const {
  const auto& value = any(name);
  NIBBLE_REQUIRE(value.is_number_unsigned(), FormatError, "{}: '{}' must be a whole number >= 0, got {}", where_, name,
                 in_quotes(value.dump()));
  return value.get<std::uint64_t>();
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMax = 80;
  if (text.size() <= kMax) return fmt::format("'{}'", text);
  const std::string_view start = text.substr(0, kMax);
  return fmt::format("'{}…'", start.substr(0, valid_utf8_prefix(start)));
}

}  // namespace nibble::model
