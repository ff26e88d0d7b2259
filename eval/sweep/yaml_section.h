#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/yaml.h"

namespace nibble::eval {

/// A mapping of a YAML file whose keys are known. Every error is InvalidArgument with source, line and section.
class YamlSection {
 public:
  /// Refuses other keys than `keys`, suggesting the nearest. `node`, `what` and `section` must outlive this.
  YamlSection(const YamlNode& node, std::string_view what, std::string_view section,
              std::span<const std::string_view> keys);

  const YamlNode* find(std::string_view key) const;  ///< null if it is not there
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string text(std::string_view key, std::string_view otherwise = {}) const;
  std::uint64_t count(std::string_view key, std::uint64_t low, std::uint64_t high, std::uint64_t otherwise) const;
  bool flag(std::string_view key) const;  ///< false if it is not there
  /// A text, or a list of texts.
  std::vector<std::string> texts(std::string_view key) const;
  /// Calls parse(text), and gives what it throws a place.
  template <class Parse>
  auto parsed(std::string_view key, std::string_view otherwise, const Parse& parse) const {
    try {
      return parse(text(key, otherwise));
    } catch (const std::exception& error) {
      fail(*find(key), error.what());
    }
  }

  [[noreturn]] void fail(const YamlNode& at, std::string_view reason) const;

 private:
  const YamlNode& node_;
  std::string_view what_, section_;
};

/// Throws InvalidArgument "what, line n: reason".
[[noreturn]] void fail_at(std::string_view what, const YamlNode& at, std::string_view reason);
/// The text of a scalar. Throws InvalidArgument for anything else.
const std::string& scalar_text(std::string_view what, const YamlNode& node, std::string_view name);
/// The texts of a scalar or of a list of scalars.
std::vector<std::string> scalar_texts(std::string_view what, const YamlNode& node, std::string_view name);

}  // namespace nibble::eval
