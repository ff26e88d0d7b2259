#include "eval/sweep/yaml_section.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble::eval {

void fail_at(std::string_view what, const YamlNode& at, std::string_view reason) {
  throw InvalidArgument(fmt::format("{}, line {}: {}", what, at.line, reason));
}

const std::string& scalar_text(std::string_view what, const YamlNode& node, std::string_view name) {
  if (node.kind != YamlNode::Kind::kScalar) fail_at(what, node, fmt::format("{}: expected one value", name));
  return node.text;
}

std::vector<std::string> scalar_texts(std::string_view what, const YamlNode& node, std::string_view name) {
  if (node.kind == YamlNode::Kind::kScalar) return {node.text};
  if (node.kind != YamlNode::Kind::kSequence || node.items.empty())
    fail_at(what, node, fmt::format("{}: expected a value or a list of values", name));
  std::vector<std::string> texts;
  for (const YamlNode& item : node.items) texts.push_back(scalar_text(what, item, name));
  return texts;
}

YamlSection::YamlSection(const YamlNode& node, std::string_view what, std::string_view section,
                         std::span<const std::string_view> keys)
    : node_(node), what_(what), section_(section) {
  if (node.kind != YamlNode::Kind::kMapping) fail(node, "expected a mapping (key: value)");
  for (const auto& [key, value] : node.entries)
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(value, fmt::format("unknown key '{}'{}", key, did_you_mean(key, keys)));
}

const YamlNode* YamlSection::find(std::string_view key) const {
  for (const auto& [name, value] : node_.entries)
    if (name == key) return &value;
  return nullptr;
}

std::string YamlSection::text(std::string_view key, std::string_view otherwise) const {
  const YamlNode* value = find(key);
  if (value == nullptr) return std::string(otherwise);
  return scalar_text(what_, *value, fmt::format("{}: {}", section_, key));
}

std::uint64_t YamlSection::count(std::string_view key, std::uint64_t low, std::uint64_t high,
                                 std::uint64_t otherwise) const {
  const YamlNode* value = find(key);
  if (value == nullptr) return otherwise;
  const std::string digits = text(key);
  std::uint64_t number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status != std::errc() || end != digits.data() + digits.size() || number < low || number > high)
    fail(*value, fmt::format("{}: expected a whole number from {} to {}, got '{}'", key, low, high, digits));
  return number;
}

bool YamlSection::flag(std::string_view key) const {
  const YamlNode* value = find(key);
  if (value == nullptr) return false;
  const std::string word = text(key);
  if (word != "true" && word != "false") fail(*value, fmt::format("{}: expected true or false, got '{}'", key, word));
  return word == "true";
}

std::vector<std::string> YamlSection::texts(std::string_view key) const {
  const YamlNode* value = find(key);
  return value == nullptr ? std::vector<std::string>{}
                          : scalar_texts(what_, *value, fmt::format("{}: {}", section_, key));
}

void YamlSection::fail(const YamlNode& at, std::string_view reason) const {
  fail_at(what_, at, fmt::format("{}: {}", section_, reason));
}

}  // namespace nibble::eval
