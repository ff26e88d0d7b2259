#include "cli/arguments/memory_size.h"

#include <charconv>
#include <cmath>

#include "core/error.h"

namespace nibble::cli {

std::uint64_t parse_memory_size(std::string_view option, std::string_view text) {
  constexpr std::string_view kSuffixes = "KMGT";
  double value = 0.0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const std::size_t power = suffix.empty() ? 0 : kSuffixes.find(suffix[0]) + 1;
  const bool fine = status == std::errc() && suffix.size() <= 1 && power <= kSuffixes.size() &&
                    (suffix.empty() || kSuffixes.find(suffix[0]) != std::string_view::npos);
  const double bytes = std::ldexp(value, static_cast<int>(10 * power));
  NIBBLE_REQUIRE(fine && bytes >= 1.0 && bytes < 0x1p63, InvalidArgument,
                 "{}: expected a size like 512M or 4G, got '{}'", option, text);
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace nibble::cli
