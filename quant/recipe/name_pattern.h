#pragma once

#include <string>
#include <string_view>

#include "core/text/pattern.h"

namespace nibble::quant {

/// A regular expression (PCRE2) from a stranger's recipe, over tensor names. Copies share the compiled form.
/// Threads: const calls may run concurrently.
class NamePattern {
 public:
  /// At most 1024 bytes. Throws InvalidArgument with position and reason when it does not compile.
  explicit NamePattern(std::string_view text);
  const std::string& text() const { return pattern_.text(); }
  /// Whether the pattern matches anywhere in `name`. Throws InvalidArgument when that takes too many steps.
  bool found_in(std::string_view name) const;

 private:
  Pattern pattern_;
};

}  // namespace nibble::quant
