#include "core/text/json_fields.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/suggest.h"

namespace nibble {
namespace {

using Json = nlohmann::json;

std::string excerpt_of(const Json& value) {
  return excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

double figure_of(const Json& value, std::string_view what, std::string_view key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  NIBBLE_REQUIRE(value.is_number(), FormatError, "{}: '{}': expected a number, got {}", what, key, excerpt_of(value));
  return value.get<double>();
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
  NIBBLE_REQUIRE(object.is_object(), FormatError, "{}: expected a JSON object, got {}", what_, object.type_name());
}

const Json* JsonFields::find(std::string_view key) const {
  mark(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::is_null(std::string_view key) const {
  mark(key);
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

const Json& JsonFields::at(std::string_view key, std::string_view expected) const {
  const Json* value = find(key);
  NIBBLE_REQUIRE(value != nullptr, FormatError, "{}: '{}' is missing; expected {}", what_, key, expected);
  return *value;
}

std::uint64_t JsonFields::integer(std::string_view key, std::uint64_t min, std::uint64_t max) const {
  const std::string expected = fmt::format("an integer from {} to {}", min, max);
  const Json& value = at(key, expected);
  NIBBLE_REQUIRE(value.is_number_unsigned() && value.get<std::uint64_t>() >= min && value.get<std::uint64_t>() <= max,
                 FormatError, "{}: '{}': expected {}, got {}", what_, key, expected, excerpt_of(value));
  return value.get<std::uint64_t>();
}

std::uint64_t JsonFields::integer_or(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                                     std::uint64_t max) const {
  return find(key) == nullptr ? fallback : integer(key, min, max);
}

double JsonFields::number(std::string_view key, double above, double max) const {
  const std::string expected = fmt::format("a number above {} and at most {}", above, max);
  const Json& value = at(key, expected);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  NIBBLE_REQUIRE(number > above && number <= max, FormatError, "{}: '{}': expected {}, got {}", what_, key, expected,
                 excerpt_of(value));
  return number;
}

double JsonFields::number_or(std::string_view key, double fallback, double above, double max) const {
  return find(key) == nullptr ? fallback : number(key, above, max);
}

bool JsonFields::boolean(std::string_view key) const {
  const Json& value = at(key, "true or false");
  NIBBLE_REQUIRE(value.is_boolean(), FormatError, "{}: '{}': expected true or false, got {}", what_, key,
                 excerpt_of(value));
  return value.get<bool>();
}

bool JsonFields::boolean_or(std::string_view key, bool fallback) const {
  return find(key) == nullptr ? fallback : boolean(key);
}

const std::string& JsonFields::text(std::string_view key) const {
  const Json& value = at(key, "a text");
  NIBBLE_REQUIRE(value.is_string(), FormatError, "{}: '{}': expected a text, got {}", what_, key, excerpt_of(value));
  return value.get_ref<const std::string&>();
}

const std::string& JsonFields::filled_text(std::string_view key) const {
  const std::string& value = text(key);
  NIBBLE_REQUIRE(!value.empty(), FormatError, "{}: '{}' must not be empty", what_, key);
  return value;
}

std::string JsonFields::text_or(std::string_view key, std::string_view fallback) const {
  return find(key) == nullptr ? std::string(fallback) : text(key);
}

std::vector<double> JsonFields::numbers(std::string_view key, std::size_t size) const {
  const std::string expected = fmt::format("a list of {} numbers", size);
  const Json& value = at(key, expected);
  NIBBLE_REQUIRE(value.is_array() && value.size() == size, FormatError, "{}: '{}': expected {}, got {}", what_, key,
                 expected, excerpt_of(value));
  std::vector<double> list;
  for (const Json& entry : value) {
    const double number = entry.is_number() ? entry.get<double>() : std::nan("");
    NIBBLE_REQUIRE(std::isfinite(number), FormatError, "{}: '{}': expected {}, got {}", what_, key, expected,
                   excerpt_of(entry));
    list.push_back(number);
  }
  return list;
}

std::vector<std::string> JsonFields::texts(std::string_view key, std::size_t size) const {
  const std::string expected = fmt::format("a list of {} texts", size);
  const Json& value = at(key, expected);
  NIBBLE_REQUIRE(value.is_array() && value.size() == size, FormatError, "{}: '{}': expected {}, got {}", what_, key,
                 expected, excerpt_of(value));
  std::vector<std::string> list;
  for (const Json& entry : value) {
    NIBBLE_REQUIRE(entry.is_string(), FormatError, "{}: '{}': expected {}, got {}", what_, key, expected,
                   excerpt_of(entry));
    list.push_back(entry.get<std::string>());
  }
  return list;
}

std::uint64_t JsonFields::count(std::string_view key) const {
  const Json& value = at(key, "a whole number");
  NIBBLE_REQUIRE(value.is_number_unsigned(), FormatError, "{}: '{}': expected a whole number, got {}", what_, key,
                 excerpt_of(value));
  return value.get<std::uint64_t>();
}

std::vector<std::uint64_t> JsonFields::counts(std::string_view key) const {
  std::vector<std::uint64_t> values;
  for (const Json& entry : list(key)) {
    NIBBLE_REQUIRE(entry.is_number_unsigned(), FormatError, "{}: '{}': expected whole numbers, got {}", what_, key,
                   excerpt_of(entry));
    values.push_back(entry.get<std::uint64_t>());
  }
  return values;
}

double JsonFields::figure(std::string_view key) const {
  mark(key);
  const auto found = object_.find(key);
  NIBBLE_REQUIRE(found != object_.end(), FormatError, "{}: '{}' is missing; expected a number", what_, key);
  return figure_of(*found, what_, key);
}

std::vector<double> JsonFields::figures(std::string_view key) const {
  std::vector<double> values;
  for (const Json& entry : list(key)) values.push_back(figure_of(entry, what_, key));
  return values;
}

std::optional<double> JsonFields::optional_figure(std::string_view key) const {
  return has(key) ? std::optional(figure(key)) : std::nullopt;
}

const Json& JsonFields::list(std::string_view key) const {
  const Json& value = at(key, "a list");
  NIBBLE_REQUIRE(value.is_array(), FormatError, "{}: '{}': expected a list, got {}", what_, key, excerpt_of(value));
  return value;
}

std::vector<JsonFields> JsonFields::objects(std::string_view key) const {
  const Json& entries = list(key);
  std::vector<JsonFields> objects;
  for (std::size_t i = 0; i < entries.size(); ++i)
    objects.emplace_back(entries[i], fmt::format("{}: '{}'[{}]", what_, key, i));
  return objects;
}

JsonFields JsonFields::object(std::string_view key) const {
  return {at(key, "an object"), fmt::format("{}: '{}'", what_, key)};
}

void JsonFields::require_boolean(std::string_view key, bool wanted) const {
  NIBBLE_REQUIRE(boolean_or(key, wanted) == wanted, FormatError, "{}: '{}': only {} is supported", what_, key, wanted);
}

void JsonFields::require_one_of(std::string_view key, std::initializer_list<const char*> known) const {
  const std::string value = text_or(key, *known.begin());
  std::string list;
  for (const char* name : known) {
    if (value == name) return;
    list += (list.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  throw FormatError(fmt::format("{}: '{}': expected {}, got '{}'", what_, key, list, value));
}

void JsonFields::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) mark(key);
  refuse_unread();
}

std::vector<std::string> JsonFields::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items())
    if (!asked_.contains(key) && !value.is_null()) keys.push_back(key);
  return keys;
}

void JsonFields::refuse_unread() const {
  const std::vector<std::string> keys = unread();
  if (keys.empty()) return;
  const std::vector<std::string_view> known(asked_.begin(), asked_.end());
  throw FormatError(fmt::format("{}: unknown key '{}'{}", what_, keys[0], did_you_mean(keys[0], known)));
}

}  // namespace nibble
