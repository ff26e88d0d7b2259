#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/steps.h"

namespace nibble::model {

/// Steps that a stranger made up must not make texts grow without bound: throws FormatError naming `where` if `to`
/// bytes are more than 64 times `from` and 4 KiB.
void require_bounded_growth(std::size_t from, std::size_t to, std::string_view where);

/// A text to another. Immutable: threads may share it.
using TextFunction = std::function<std::string(std::string_view text)>;

/// Replaces matches (see make_matcher(), whose errors it throws).
TextFunction make_replace(const ReplaceStep& step, const std::string& where);

/// What happens to a text before it is cut into words.
class Normalizer {
 public:
  /// `where` names the origin in messages. Throws FormatError for patterns and tables that are not valid.
  Normalizer(const std::vector<NormalizerStep>& steps, const std::string& where);
  bool is_identity() const { return steps_.empty(); }
  /// Throws FormatError as require_bounded_growth() does.
  std::string apply(std::string_view text) const;
  /// The same; `starts_text` becomes false where the first character that is left does not stand for the first of
  /// `text`, which was removed or replaced together with others.
  std::string apply(std::string_view text, bool& starts_text) const;

 private:
  struct Step {
    TextFunction apply;
    std::function<bool(std::string_view text)> keeps_start;  // of a text that is not empty
  };
  std::vector<Step> steps_;
};

}  // namespace nibble::model
