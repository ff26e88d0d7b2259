#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/text/pattern.h"

namespace nibble::model {

/// A pattern over Unicode text that comes from a file, whose name stands in its messages. Thread-safe.
/// The syntax is PCRE2's own; split/oniguruma.h translates what Hugging Face writes.
class Regex {
 public:
  /// `where` names the origin in messages. Throws FormatError if the pattern cannot be compiled.
  Regex(std::string_view pattern, std::string where);

  /// Calls on_match(begin, end) for all matches, leftmost first, none overlapping. An empty match directly behind
  /// another match does not count; after one the search goes on one character later. Requires valid UTF-8. Throws
  /// FormatError if a match exceeds the limits.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t begin, std::size_t end)>& on_match) const;

 private:
  Pattern pattern_;
  std::string where_;
};

}  // namespace nibble::model
