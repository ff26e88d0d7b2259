#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

/// Typed access to the members of one JSON object from a stranger; a null member counts as absent. Every getter throws
/// FormatError that says where (`what`), which key, what was expected and what was found. Remembers which keys were
/// asked for, so that a reader can refuse those that nobody understood. The object must outlive it.
class JsonFields {
 public:
  /// Throws FormatError unless `object` is one.
  JsonFields(const nlohmann::json& object, std::string what);

  const std::string& what() const { return what_; }
  /// The member, or null if it is absent or null.
  const nlohmann::json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool is_null(std::string_view key) const;  ///< there, and null: for settings whose absence means something else
  const nlohmann::json& at(std::string_view key, std::string_view expected) const;  ///< throws where it is absent

  std::uint64_t integer(std::string_view key, std::uint64_t min, std::uint64_t max) const;
  std::uint64_t integer_or(std::string_view key, std::uint64_t fallback, std::uint64_t min, std::uint64_t max) const;
  /// above < number <= max.
  double number(std::string_view key, double above, double max) const;
  double number_or(std::string_view key, double fallback, double above, double max) const;
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  const std::string& text(std::string_view key) const;
  const std::string& filled_text(std::string_view key) const;  ///< throws where it is empty, too
  std::string text_or(std::string_view key, std::string_view fallback) const;
  /// A list of numbers, each finite; throws if it has not `size` of them.
  std::vector<double> numbers(std::string_view key, std::size_t size) const;
  std::vector<std::string> texts(std::string_view key, std::size_t size) const;
  /// A whole number, and a list of them.
  std::uint64_t count(std::string_view key) const;
  std::vector<std::uint64_t> counts(std::string_view key) const;
  /// A measured number, and a list of them: any; null stands for NaN, for which JSON has no word.
  double figure(std::string_view key) const;
  std::vector<double> figures(std::string_view key) const;
  std::optional<double> optional_figure(std::string_view key) const;  ///< empty where it is absent or null
  /// A list, and one of objects.
  const nlohmann::json& list(std::string_view key) const;
  std::vector<JsonFields> objects(std::string_view key) const;
  /// The object `key`. Throws unless it is there and one.
  JsonFields object(std::string_view key) const;

  /// A setting of which only one value is computed: throws, saying so, if it is there with another.
  void require_boolean(std::string_view key, bool wanted) const;
  void require_one_of(std::string_view key, std::initializer_list<const char*> known) const;

  /// Counts a key as understood.
  void mark(std::string_view key) const { asked_.emplace(key); }
  /// Members that nobody asked for and that are not null, in the order of their names.
  std::vector<std::string> unread() const;
  /// Throws for the first of them, naming the nearest key that was asked for.
  void refuse_unread() const;
  /// The same for members that are not among `keys`, before any is asked for.
  void allow_only(std::initializer_list<std::string_view> keys) const;

 private:
  const nlohmann::json& object_;
  std::string what_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace nibble
