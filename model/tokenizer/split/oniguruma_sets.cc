#include "model/tokenizer/split/oniguruma_sets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace nibble::model {
namespace {

using Named = std::pair<std::string_view, std::string_view>;  // name, what goes between brackets

constexpr std::array<Named, 12> kPosixClasses{{{"alnum", "\\p{Alphabetic}\\p{Nd}"},
                                               {"alpha", "\\p{Alphabetic}"},
                                               {"ascii", "\\x00-\\x7F"},
                                               {"blank", "\\p{Zs}\\t"},
                                               {"cntrl", "\\p{Cc}"},
                                               {"digit", "\\p{Nd}"},
                                               {"lower", "\\p{Lowercase}"},
                                               {"punct", "\\p{P}\\p{S}"},
                                               {"space", "\\p{White_Space}"},
                                               {"upper", "\\p{Uppercase}"},
                                               {"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
                                               {"xdigit", "0-9A-Fa-f"}}};

/// Oniguruma looks Latin-1's characters up in a table of its own where \w stands alone.
constexpr std::string_view kWordNumbers = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

constexpr std::array<Named, 45> kProperties{{{"any", "\\p{Any}"},
                                             {"alphabetic", "\\p{Alphabetic}"},
                                             {"uppercase", "\\p{Uppercase}"},
                                             {"lowercase", "\\p{Lowercase}"},
                                             {"whitespace", "\\p{White_Space}"},
                                             {"emoji", "\\p{Emoji}"},
                                             {"letter", "\\p{L}"},
                                             {"uppercaseletter", "\\p{Lu}"},
                                             {"lowercaseletter", "\\p{Ll}"},
                                             {"titlecaseletter", "\\p{Lt}"},
                                             {"modifierletter", "\\p{Lm}"},
                                             {"otherletter", "\\p{Lo}"},
                                             {"mark", "\\p{M}"},
                                             {"combiningmark", "\\p{M}"},
                                             {"nonspacingmark", "\\p{Mn}"},
                                             {"spacingmark", "\\p{Mc}"},
                                             {"enclosingmark", "\\p{Me}"},
                                             {"number", "\\p{N}"},
                                             {"decimalnumber", "\\p{Nd}"},
                                             {"letternumber", "\\p{Nl}"},
                                             {"othernumber", "\\p{No}"},
                                             {"punctuation", "\\p{P}"},
                                             {"punct", "\\p{P}"},  // [:punct:] has symbols too
                                             {"connectorpunctuation", "\\p{Pc}"},
                                             {"dashpunctuation", "\\p{Pd}"},
                                             {"openpunctuation", "\\p{Ps}"},
                                             {"closepunctuation", "\\p{Pe}"},
                                             {"initialpunctuation", "\\p{Pi}"},
                                             {"finalpunctuation", "\\p{Pf}"},
                                             {"otherpunctuation", "\\p{Po}"},
                                             {"symbol", "\\p{S}"},
                                             {"mathsymbol", "\\p{Sm}"},
                                             {"currencysymbol", "\\p{Sc}"},
                                             {"modifiersymbol", "\\p{Sk}"},
                                             {"othersymbol", "\\p{So}"},
                                             {"separator", "\\p{Z}"},
                                             {"spaceseparator", "\\p{Zs}"},
                                             {"lineseparator", "\\p{Zl}"},
                                             {"paragraphseparator", "\\p{Zp}"},
                                             {"other", "\\p{C}"},
                                             {"control", "\\p{Cc}"},
                                             {"format", "\\p{Cf}"},
                                             {"privateuse", "\\p{Co}"},
                                             {"unassigned", "\\p{Cn}"},
                                             {"surrogate", "\\p{Cs}"}}};

/// One or two letters: "L", "Lu" …
constexpr std::array<std::string_view, 37> kCategories{
    "l",  "lu", "ll", "lt", "lm", "lo", "m",  "mn", "mc", "me", "n",  "nd", "nl", "no", "p",  "pc", "pd", "ps", "pe",
    "pi", "pf", "po", "s",  "sm", "sc", "sk", "so", "z",  "zs", "zl", "zp", "c",  "cc", "cf", "cn", "co", "cs"};

/// Sets without letters that have another case, beside the categories N, P, S, Z and C, in which both cases are.
constexpr std::array<std::string_view, 6> kCaseless{"\\p{Lm}", "\\p{Lo}",          "\\p{Mc}",
                                                    "\\p{Me}", "\\p{White_Space}", "\\p{sc:han}"};

CharSet set_of(std::string_view items) {
  const bool is_ascii = !items.starts_with("\\p{");  // both libraries fold that alike
  const bool is_caseless = is_ascii || std::string_view("NPSZC").find(items[3]) != std::string_view::npos ||
                           std::find(kCaseless.begin(), kCaseless.end(), items) != kCaseless.end();
  return {.items = std::string(items), .cased = !is_caseless};
}

template <std::size_t size>
std::optional<CharSet> look_up(const std::array<Named, size>& table, std::string_view name) {
  for (const auto& [known, items] : table) {
    if (known == name) return set_of(items);
  }
  return std::nullopt;
}

std::optional<CharSet> word_characters(Place place) {
  auto set = look_up(kPosixClasses, "word");
  if (place == Place::kAlone) set->items += kWordNumbers;
  return set;
}

/// Oniguruma ignores case, spaces, '-' and '_' in names. Empty if there is anything else but letters and digits.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) return "";
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

}  // namespace

void CharSet::add(const CharSet& other) {
  cased = cased || other.cased;
  if (!other.negated) {
    items += other.items;
    others.insert(others.end(), other.others.begin(), other.others.end());
  } else {
    others.push_back(other.pattern());
  }
}

std::string CharSet::pattern() const {
  if (others.empty()) return (negated ? "[^" : "[") + items + "]";
  std::string either = items.empty() ? "" : "[" + items + "]";
  for (const std::string& other : others) {
    if (!either.empty()) either += "|";
    either += other;
  }
  return negated ? "(?:(?!" + either + ")(?s:.))" : "(?:" + either + ")";
}

std::optional<CharSet> oniguruma_posix_class(std::string_view name) { return look_up(kPosixClasses, name); }

std::optional<CharSet> oniguruma_property(std::string_view name, Place place) {
  const std::string plain = plain_name(name);
  if (plain.empty() || plain == "graph" || plain == "print") return std::nullopt;
  for (const std::string_view category : kCategories) {
    if (category != plain) continue;
    std::string letters = plain;
    letters[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(letters[0])));
    return set_of("\\p{" + letters + "}");
  }
  if (plain == "word") return word_characters(place);
  if (auto known = look_up(kProperties, plain)) return known;
  if (auto known = look_up(kPosixClasses, plain)) return known;
  return set_of("\\p{sc:" + plain + "}");
}

std::optional<CharSet> oniguruma_shorthand(char letter, Place place) {
  const bool negated = letter >= 'A' && letter <= 'Z';
  std::optional<CharSet> set;
  switch (letter) {
    case 'd':
    case 'D':
      set = oniguruma_posix_class("digit");
      break;
    case 'w':
    case 'W':
      set = word_characters(place);
      break;
    case 's':
    case 'S':
      set = oniguruma_posix_class("space");
      break;
    case 'h':
    case 'H':
      set = oniguruma_posix_class("xdigit");
      break;
    default:
      return std::nullopt;
  }
  set->negated = negated;
  return set;
}

}  // namespace nibble::model
