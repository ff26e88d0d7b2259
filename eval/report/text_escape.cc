#include "eval/report/text_escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace nibble::eval {
namespace {

// Bytes of the valid UTF-8 character at the front of `text`, 0 if there is none (Unicode 15, table 3-7).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;  // overlong, surrogates
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;  // overlong, above U+10FFFF
  return size;
}

std::string clean(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    if (size == 0) {
      result += "\xEF\xBF\xBD";
    } else if (size == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F)) {
      result += ' ';
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

template <class Replacement>
std::string replaced(std::string_view text, const Replacement& replacement) {
  std::string result;
  for (const char c : clean(text)) {
    const std::string_view other = replacement(c);
    if (other.empty()) {
      result += c;
    } else {
      result += other;
    }
  }
  return result;
}

std::string_view html_replacement(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

std::string_view tex_replacement(char c) {
  switch (c) {
    case '\\':
      return "\\textbackslash{}";
    case '{':
      return "\\{";
    case '}':
      return "\\}";
    case '#':
      return "\\#";
    case '$':
      return "\\$";
    case '%':
      return "\\%";
    case '&':
      return "\\&";
    case '_':
      return "\\_";
    case '^':
      return "\\textasciicircum{}";
    case '~':
      return "\\textasciitilde{}";
    case '<':
      return "\\textless{}";
    case '>':
      return "\\textgreater{}";
    case '|':
      return "\\textbar{}";
    case '"':
      return "\\textquotedbl{}";
    case '[':  // after a line break it would be an optional argument
      return "{[}";
    case ']':
      return "{]}";
    default:
      return {};
  }
}

// LaTeX with utf8 knows these only as commands.
std::string_view tex_sign(std::string_view character) {
  for (const auto& [sign, command] : {std::pair<std::string_view, std::string_view>{"±", "$\\pm$"},
                                      {"−", "$-$"},
                                      {"×", "$\\times$"},
                                      {"→", "$\\rightarrow$"},
                                      {"Δ", "$\\Delta$"},
                                      {"Σ", "$\\Sigma$"},
                                      {"≈", "$\\approx$"},
                                      {"–", "--"},
                                      {"·", "$\\cdot$"},
                                      {"†", "$\\dagger$"},
                                      {"…", "\\dots{}"}})
    if (sign == character) return command;
  return {};
}

// Of a valid character of more than one byte.
char32_t code_point(std::string_view character) {
  char32_t code = static_cast<unsigned char>(character[0]) & (0xFFu >> (character.size() + 1));
  for (const char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3Fu);
  return code;
}

// Latin letters that LaTeX's T1 encoding can set; any other character would end the run with an error.
bool has_t1_glyph(char32_t code) {
  constexpr std::u32string_view kMissing = U"ĦħĸĿŀŉŦŧſ";
  return code >= 0xA0 && code < 0x180 && kMissing.find(code) == std::u32string_view::npos;
}

std::string_view markdown_replacement(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '|':
      return "\\|";
    case '\\':
      return "\\\\";
    case '`':
      return "\\`";
    case '*':
      return "\\*";
    case '_':
      return "\\_";
    case '[':
      return "\\[";
    case ']':
      return "\\]";
    case '!':
      return "\\!";
    default:
      return {};
  }
}

bool is_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string html_text(std::string_view text) { return replaced(text, html_replacement); }
std::string tex_text(std::string_view text) {
  std::string result;
  const std::string cleaned = clean(text);
  for (std::string_view rest = cleaned; !rest.empty();) {
    const std::string_view character = rest.substr(0, character_bytes(rest));
    rest.remove_prefix(character.size());
    const std::string_view other = character.size() == 1 ? tex_replacement(character[0]) : tex_sign(character);
    if (!other.empty()) {
      result += other;
    } else if (character.size() == 1 || has_t1_glyph(code_point(character))) {
      result += character;
    } else {
      result += fmt::format("U+{:04X}", static_cast<std::uint32_t>(code_point(character)));
    }
  }
  return result;
}
std::string markdown_text(std::string_view text) { return replaced(text, markdown_replacement); }

std::string csv_text(std::string_view text) {
  std::string field = "\"";
  const std::string cleaned = clean(text);
  if (!cleaned.empty() && std::string_view("=+-@").find(cleaned[0]) != std::string_view::npos && !is_number(cleaned))
    field += '\'';
  for (const char c : cleaned) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace nibble::eval
