#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

struct YamlEntry;

/// A YAML document as data: what recipes and sweeps may consist of.
struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  std::string text;                ///< of a scalar, unquoted
  std::vector<YamlNode> items;     ///< of a sequence
  std::vector<YamlEntry> entries;  ///< of a mapping, in order, keys unique
  int line = 0;                    ///< 1-based
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

/// Reads one document of YAML (or JSON) from a stranger: at most 256 KiB, 16 levels deep, without anchors, aliases
/// (no bombs), tags, keys that are not scalars, duplicate keys, further documents or bytes that are not UTF-8. `what`
/// names the source in messages. Throws InvalidArgument with the line.
YamlNode parse_yaml(std::string_view text, std::string_view what);

/// The largest document accepted, in bytes.
constexpr std::size_t kMaxYamlBytes = 256 * 1024;

}  // namespace nibble
