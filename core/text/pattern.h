#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace nibble {

/// A regular expression (PCRE2) from a stranger, compiled to machine code where that is possible. The pattern's length
/// and what one search takes are limited. Copies share the compiled form; searches may run concurrently.
class Pattern {
 public:
  enum class Over {
    kBytes,  ///< bytes, one line
    kUtf8,   ///< characters of valid UTF-8 (not checked when searching); ^ and $ know lines, which end at "\n" alone
  };
  struct Limits {
    std::size_t pattern_bytes;
    std::uint32_t steps, depth, heap_kib;  ///< of one search
  };
  /// Throws FormatError naming the pattern, the place and the reason when it does not compile: not 1 to
  /// limits.pattern_bytes long, kUtf8 and not UTF-8, syntax, or a \C, which could part characters.
  Pattern(std::string_view pattern, Over over, const Limits& limits);

  const std::string& text() const;

  /// Where a match begins and ends; \K may put begin behind end.
  struct Match {
    std::size_t begin = 0, end = 0;
  };
  /// The first match in `text` that begins at `start` or behind it. Throws FormatError with the reason where a limit is
  /// exceeded.
  std::optional<Match> search(std::string_view text, std::size_t start = 0) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace nibble
