#include "model/tokenizer/split/oniguruma.h"

#include <charconv>
#include <optional>

#include "core/error.h"
#include "model/tokenizer/split/oniguruma_sets.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxPatternBytes = 16384;

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A character, so that it stands for itself inside and outside of brackets.
std::string literal(char32_t c) {
  std::string text;
  if (is_ascii_letter(c) || (c >= '0' && c <= '9') || c >= 0x80) {
    append_utf8(text, c);
    return text;
  }
  return fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(c));
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    std::string translated = alternatives(0, false);
    if (!at_end()) refuse("a closing parenthesis without an opening one");
    return translated;
  }

 private:
  struct Atom {
    std::string text;
    bool repeatable = true;
    char32_t character = 0;  // where it is one that stands for itself
  };

  [[noreturn]] void refuse(std::string_view what) const {
    throw FormatError(
        fmt::format("{}: the pattern '{}' has {} at byte {}, which is not supported", where_, pattern_, what, pos_));
  }

  bool at_end() const { return pos_ == pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[pos_]; }
  bool starts_with(std::string_view text) const { return pattern_.substr(pos_).starts_with(text); }
  bool take(std::string_view text) {
    if (!starts_with(text)) return false;
    pos_ += text.size();
    return true;
  }
  char32_t take_character() {
    if (at_end()) refuse("an end too early");
    const Utf8Char c = decode_utf8(pattern_, pos_);
    pos_ += c.length;
    return c.code_point;
  }

  /// Up to a closing parenthesis or the end.
  std::string alternatives(int depth, bool ignore_case) {
    if (depth > kMaxDepth) refuse("groups nested too deep");
    std::string result;
    bool is_start = true;
    char32_t previous_letter = 0;
    while (!at_end() && peek() != ')') {
      if (take("|")) {
        result += '|';
        is_start = false;
        previous_letter = 0;
        continue;
      }
      if (take("(?#")) {
        while (!at_end() && peek() != ')') ++pos_;
        if (!take(")")) refuse("a comment without an end");
        continue;
      }
      if (const auto options = isolated_options(ignore_case)) {
        if (!is_start) refuse("options in the middle of a group");
        result += *options;
        continue;
      }
      is_start = false;
      const Atom unrepeated = atom(depth, ignore_case);
      if (ignore_case) previous_letter = check_folding(unrepeated.character, previous_letter);
      result += repeated(unrepeated);
    }
    return result;
  }

  /// Under (?i) Oniguruma lets "ss" match "ß" and so on: letters that fold to several characters.
  char32_t check_folding(char32_t character, char32_t previous_letter) {
    if (character >= 0x80) refuse("a character beyond ASCII under (?i)");
    if (!is_ascii_letter(character)) return 0;
    const char32_t letter = character | 0x20;
    for (const std::string_view pair : {"ss", "ff", "fi", "fl", "st"}) {
      if (previous_letter == static_cast<char32_t>(pair[0]) && letter == static_cast<char32_t>(pair[1])) {
        refuse(fmt::format("'{}' under (?i)", pair));
      }
    }
    return letter;
  }

  /// "(?i)" and so on, in PCRE2's letters.
  std::optional<std::string> isolated_options(bool& ignore_case) {
    const std::size_t begin = pos_;
    if (!take("(?")) return std::nullopt;
    bool ignore = ignore_case;
    if (auto letters = options(ignore); letters && take(")")) {
      ignore_case = ignore;
      return "(?" + *letters + ")";
    }
    pos_ = begin;
    return std::nullopt;
  }

  std::optional<std::string> options(bool& ignore_case) {
    std::string letters;
    bool on = true;
    bool ignore = ignore_case;
    for (; peek() == 'i' || peek() == 'm' || peek() == '-'; ++pos_) {
      if (peek() == 'i') ignore = on;
      if (peek() == '-') on = false;
      letters += peek() == 'm' ? 's' : peek();
    }
    if (letters.empty() || (peek() != ')' && peek() != ':')) return std::nullopt;
    ignore_case = ignore;
    return letters;
  }

  Atom group(int depth, bool ignore_case) {
    const auto closed = [&](std::string_view opening, bool ignore) {
      std::string text = std::string(opening) + alternatives(depth + 1, ignore) + ")";
      if (!take(")")) refuse("a missing closing parenthesis");
      return text;
    };
    if (!starts_with("?")) return {closed("(?:", ignore_case)};
    for (const std::string_view opening : {"?=", "?!", "?<=", "?<!"}) {
      if (take(opening)) return {closed("(" + std::string(opening), ignore_case), false};
    }
    for (const std::string_view opening : {"?:", "?>"}) {
      if (take(opening)) return {closed("(" + std::string(opening), ignore_case)};
    }
    ++pos_;
    bool ignore = ignore_case;
    const auto letters = options(ignore);
    if (!letters || !take(":")) refuse("a group of a kind");
    return {closed("(?" + *letters + ":", ignore)};
  }

  Atom atom(int depth, bool ignore_case) {
    switch (peek()) {
      case '(':
        ++pos_;
        return group(depth, ignore_case);
      case '[': {
        ++pos_;
        const CharSet set = bracket(depth);
        // Oniguruma lets "ss" match [\w] too, and "a" [\p{Lu}], but none of them \w and \p{Lu} without brackets.
        if (ignore_case && (set.negated || set.cased || !set.others.empty())) refuse("such a class under (?i)");
        return {set.pattern()};
      }
      case '.':
        ++pos_;
        return {"."};
      case '^':
      case '$':
        return {std::string(1, pattern_[pos_++]), false};
      case '\\':
        ++pos_;
        return escape();
      case '*':
      case '+':
      case '?':
        refuse("a repetition of nothing");
      default:
        return character(take_character());
    }
  }

  static Atom character(char32_t c) { return {.text = literal(c), .character = c}; }

  std::optional<CharSet> set_of_escape(Place place) {
    if (auto set = oniguruma_shorthand(peek(), place)) {
      ++pos_;
      return set;
    }
    if (peek() != 'p' && peek() != 'P') return std::nullopt;
    bool negated = peek() == 'P';
    ++pos_;
    if (!take("{")) refuse("\\p without braces");
    if (take("^")) negated = !negated;
    const std::size_t end = pattern_.find('}', pos_);
    if (end == std::string_view::npos) refuse("\\p{ without an end");
    auto set = oniguruma_property(pattern_.substr(pos_, end - pos_), place);
    if (!set) refuse("such a \\p{…}");
    pos_ = end + 1;
    set->negated = negated;
    return set;
  }

  char32_t hexadecimal(std::size_t least, std::size_t most) {
    std::size_t digits = 0;
    while (digits < most && pos_ + digits < pattern_.size() &&
           std::string_view("0123456789abcdefABCDEF").find(pattern_[pos_ + digits]) != std::string_view::npos) {
      ++digits;
    }
    std::uint32_t value = 0;
    if (digits >= least) std::from_chars(pattern_.data() + pos_, pattern_.data() + pos_ + digits, value, 16);
    if (digits < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) refuse("such a character number");
    pos_ += digits;
    return value;
  }

  /// What follows a backslash and stands for one character.
  char32_t escaped_character() {
    const char32_t c = take_character();
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case 'u':
        return hexadecimal(4, 4);
      case 'x': {
        if (take("{")) {
          const char32_t value = hexadecimal(1, 8);
          if (!take("}")) refuse("such a character number");
          return value;
        }
        const char32_t value = hexadecimal(1, 2);
        if (value >= 0x80) refuse("a byte beyond ASCII");  // Oniguruma: a part of a UTF-8 sequence
        return value;
      }
      default:
        break;
    }
    if (is_ascii_letter(c) || (c >= '0' && c <= '9')) {
      refuse(fmt::format("the escape \\{}", static_cast<char>(c)));
    }
    return c;
  }

  Atom escape() {
    if (const auto set = set_of_escape(Place::kAlone)) return {set->pattern()};
    const std::string word = oniguruma_shorthand('w', Place::kAlone)->pattern();
    switch (peek()) {
      case 'A':
      case 'z':
      case 'Z':
        return {std::string("\\") + pattern_[pos_++], false};
      case 'R':
        ++pos_;
        return {"\\R"};
      case 'b':
        ++pos_;
        return {fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word), false};
      case 'B':
        ++pos_;
        return {fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word), false};
      default:
        return character(escaped_character());
    }
  }

  /// What follows '['. `&&` binds less than standing side by side.
  CharSet bracket(int depth) {
    if (depth > kMaxDepth) refuse("classes nested too deep");
    CharSet result;
    result.negated = take("^");
    if (peek() == ']') refuse("a class that begins with ']'");
    std::string conditions;  // of the parts before an &&
    CharSet part;
    const auto require_members = [&] {
      if (part.items.empty() && part.others.empty()) refuse("an empty part of a class");
    };
    while (!take("]")) {
      if (at_end()) refuse("a class without an end");
      if (take("&&")) {
        require_members();
        conditions += "(?=" + part.pattern() + ")";
        part = {};
      } else if (take("[:")) {
        part.add(posix_class());
      } else if (take("[")) {
        part.add(bracket(depth + 1));
      } else {
        add_range(part);
      }
    }
    require_members();
    if (conditions.empty()) {
      part.negated = result.negated;
      return part;
    }
    result.others.push_back("(?:" + conditions + part.pattern() + ")");
    return result;
  }

  CharSet posix_class() {
    const bool negated = take("^");
    const std::size_t end = pattern_.find(":]", pos_);
    auto set = end == std::string_view::npos ? std::nullopt : oniguruma_posix_class(pattern_.substr(pos_, end - pos_));
    if (!set) refuse("such a [:class:]");
    pos_ = end + 2;
    set->negated = negated;
    return *set;
  }

  /// A character, a range of them, or a class that an escape stands for.
  void add_range(CharSet& part) {
    const bool is_hyphen = peek() == '-';
    if (take("\\")) {
      if (const auto set = set_of_escape(Place::kInBrackets)) {
        part.add(*set);
        if (peek() == '-' && !starts_with("-]")) refuse("a range that begins with a class");
        return;
      }
      add_range_from(part, peek() == 'b' ? (++pos_, char32_t{8}) : escaped_character(), false);
      return;
    }
    add_range_from(part, take_character(), is_hyphen);
  }

  void add_range_from(CharSet& part, char32_t first, bool is_hyphen) {
    part.items += literal(first);
    part.cased = part.cased || first >= 0x80;
    if (peek() != '-' || starts_with("-]")) return;
    if (is_hyphen || starts_with("-[") || starts_with("-&&")) refuse("such a range");
    ++pos_;
    char32_t last = 0;
    if (take("\\")) {
      if (set_of_escape(Place::kInBrackets)) refuse("a range that ends with a class");
      last = escaped_character();
    } else {
      last = take_character();
    }
    if (last < first) refuse("a range that goes backwards");
    part.items += "-" + literal(last);
    part.cased = part.cased || last >= 0x80;
  }

  struct Interval {
    std::string text;
    bool fixed = false;
  };

  /// "{2}", "{2,}", "{,3}" or "{2,3}"; anything else in braces is text.
  std::optional<Interval> interval() {
    if (peek() != '{') return std::nullopt;
    std::size_t at = pos_ + 1;
    const auto number = [&] {
      std::string digits;
      while (at < pattern_.size() && is_digit(pattern_[at])) digits += pattern_[at++];
      return digits;
    };
    const std::string least = number();
    const bool comma = at < pattern_.size() && pattern_[at] == ',';
    if (comma) ++at;
    const std::string most = comma ? number() : least;
    if (at >= pattern_.size() || pattern_[at] != '}' || (least.empty() && most.empty())) return std::nullopt;
    if (least.size() > 5 || most.size() > 5 ||
        (!most.empty() && !least.empty() && std::stoi(most) < std::stoi(least))) {
      refuse("such a repetition");
    }
    pos_ = at + 1;
    if (!comma) return Interval{"{" + least + "}", true};
    return Interval{"{" + (least.empty() ? "0" : least) + "," + most + "}", false};
  }

  std::string repeated(const Atom& atom) {
    std::string text = atom.text;
    for (bool is_repeated = false;; is_repeated = true) {
      const std::size_t begin = pos_;
      std::string suffix;
      if (const auto range = interval()) {
        suffix = range->text;
        if (take("?")) {
          if (range->fixed) {  // once or not at all
            text = "(?:" + text + suffix + ")";
            suffix = "";
          }
          suffix += "?";
        }
      } else if (peek() == '*' || peek() == '+' || peek() == '?') {
        suffix = pattern_[pos_++];
        if (peek() == '?' || peek() == '+') suffix += pattern_[pos_++];
      } else {
        return text;
      }
      if (!atom.repeatable) {
        pos_ = begin;
        refuse("a repetition of a place");
      }
      if (is_repeated) text = "(?:" + text + ")";
      text += suffix;
    }
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t pos_ = 0;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& where) {
  NIBBLE_REQUIRE(pattern.size() <= kMaxPatternBytes, FormatError, "{}: the pattern has {} bytes, more than {}", where,
                 pattern.size(), kMaxPatternBytes);
  NIBBLE_REQUIRE(valid_utf8_prefix(pattern) == pattern.size(), FormatError, "{}: the pattern is not UTF-8", where);
  return Translator(pattern, where).run();
}

}  // namespace nibble::model
