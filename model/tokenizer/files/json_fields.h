#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace nibble::model {

/// Typed access to the fields of a JSON object from a stranger. All throw FormatError, naming the object and the field.
/// Refers to the JSON, which must outlive it.
class JsonFields {
 public:
  /// `where` names the object in messages. Throws unless `json` is an object.
  JsonFields(const nlohmann::json& json, std::string where);

  const std::string& where() const { return where_; }
  /// Throws if there is a field of another name.
  void allow_only(std::initializer_list<std::string_view> names) const;
  /// True if the field is there and not null.
  bool has(const char* name) const;
  const nlohmann::json& any(const char* name) const;
  const nlohmann::json& array(const char* name) const;
  JsonFields object(const char* name) const;
  const std::string& text(const char* name) const;
  /// The text, which must not be empty.
  const std::string& filled_text(const char* name) const;
  bool boolean(const char* name) const;
  bool boolean(const char* name, bool otherwise) const { return has(name) ? boolean(name) : otherwise; }
  std::uint64_t count(const char* name) const;

 private:
  const nlohmann::json& json_;
  std::string where_;
};

/// A stranger's text for a message: in quotes, cut where it is long.
std::string in_quotes(std::string_view text);

}  // namespace nibble::model
