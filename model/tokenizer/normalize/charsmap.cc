#include "model/tokenizer/normalize/charsmap.h"

#include <cstring>

#include "core/error.h"

namespace nibble::model {
namespace {

// A unit: bits 0-7 a label, bit 8 whether a value ends here, bit 9 whether the offset is scaled, bits 10-30 the offset;
// a unit that is a value has bit 31 set.
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1u) != 0; }
std::uint32_t label(std::uint32_t unit) { return unit & (std::uint32_t{1} << 31 | 0xFFu); }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & std::uint32_t{1} << 9) >> 6); }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return number;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& where) : where_(where) {
  NIBBLE_REQUIRE(blob.size() >= 4, FormatError, "{}: the charsmap has only {} bytes", where, blob.size());
  const std::size_t trie_bytes = read_u32(blob, 0);
  NIBBLE_REQUIRE(trie_bytes % 4 == 0 && trie_bytes >= 4 && trie_bytes < blob.size() - 4, FormatError,
                 "{}: a trie of {} bytes does not fit into a charsmap of {}", where, trie_bytes, blob.size());
  units_.resize(trie_bytes / 4);
  for (std::size_t i = 0; i < units_.size(); ++i) units_[i] = read_u32(blob, 4 + 4 * i);
  replacements_ = blob.substr(4 + trie_bytes);
  NIBBLE_REQUIRE(replacements_.back() == '\0', FormatError, "{}: the charsmap does not end with a zero byte", where);
}

Charsmap::Rule Charsmap::longest_rule(std::string_view text) const {
  Rule rule;
  std::size_t node = offset(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_value(unit)) continue;
    const std::size_t at = node < units_.size() ? value(units_[node]) : replacements_.size();
    NIBBLE_REQUIRE(at < replacements_.size(), FormatError, "{}: the charsmap's rule for '{}' leads out of its table",
                   where_, text.substr(0, i + 1));
    rule = {i + 1, replacements_.data() + at};  // ends before the next zero byte, and there is one
  }
  return rule;
}

bool Charsmap::may_start(char byte) const {
  const std::size_t node = offset(units_[0]) ^ static_cast<unsigned char>(byte);
  return node < units_.size() && label(units_[node]) == static_cast<unsigned char>(byte);
}

}  // namespace nibble::model
