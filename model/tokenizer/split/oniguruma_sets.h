#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::model {

/// A set of characters, as PCRE2 spells it.
struct CharSet {
  std::string items = {};                // what goes between brackets: ranges and properties
  std::vector<std::string> others = {};  // patterns of one character each: what brackets cannot say
  bool negated = false;
  bool cased = false;  // letters may be among them to which (?i) adds, between brackets, what PCRE2 does not

  void add(const CharSet& other);
  /// A pattern that matches one character of the set. Requires items or others.
  std::string pattern() const;
};

/// Where \w or \p{Word} stands: the numbers ²³¹¼½¾ are parts of words to Oniguruma, but not between brackets.
enum class Place { kAlone, kInBrackets };

/// The members of \p{NAME}, by Oniguruma's names; empty for one that is not known. A name that is none of the
/// categories and properties listed is taken for a script, for PCRE2 to accept or not.
std::optional<CharSet> oniguruma_property(std::string_view name, Place place);
/// The members of [:NAME:] between brackets, or empty.
std::optional<CharSet> oniguruma_posix_class(std::string_view name);
/// The members of \d, \w, \s, \h and their complements \D, \W, \S, \H, or empty.
std::optional<CharSet> oniguruma_shorthand(char letter, Place place);

}  // namespace nibble::model
