#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nibble::model {

/// Puts `text` before every text that is not empty.
struct PrependStep {
  std::string text;
};
/// Replaces every occurrence of `from` (not empty), leftmost first.
struct ReplaceStep {
  std::string from;
  std::string to;
  std::string apply(std::string_view text) const;
};
/// Steps that a stranger made up must not make texts grow without bound: throws FormatError naming `where` if `to`
/// bytes are more than 64 times `from` and 4 KiB.
void require_bounded_growth(std::size_t from, std::size_t to, std::string_view where);

using NormalizerStep = std::variant<PrependStep, ReplaceStep>;

/// What happens to a text before it is cut into words.
class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}
  bool is_identity() const { return steps_.empty(); }
  /// Throws FormatError as require_bounded_growth() does.
  std::string apply(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace nibble::model
