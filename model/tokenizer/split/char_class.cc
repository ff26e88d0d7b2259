#include "model/tokenizer/split/char_class.h"

#include <string>
#include <vector>

#include "model/tokenizer/split/regex.h"

namespace nibble::model {
namespace {

constexpr char32_t kAllCodePoints = 0x110000;

std::string every_character() {
  std::string all;
  for (char32_t c = 0; c < kAllCodePoints; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(all, c);
  }
  return all;
}

/// Calls on_code_point for every one that the runs of a class have.
template <class OnCodePoint>
void for_each_of(std::string_view runs_of_class, OnCodePoint&& on_code_point) {
  const std::string text = every_character();
  const Regex regex(runs_of_class, "Unicode classes");
  regex.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    while (begin < end) {
      const Utf8Char c = decode_utf8(text, begin);
      on_code_point(c.code_point);
      begin += c.length;
    }
  });
}

std::vector<CharClass> read_classes() {
  std::vector<CharClass> classes(kAllCodePoints, CharClass::kOther);
  const auto mark = [&](std::string_view runs_of_class, CharClass char_class) {
    for_each_of(runs_of_class, [&](char32_t c) { classes[c] = char_class; });
  };
  mark("\\p{L}+", CharClass::kLetter);
  mark("\\p{N}+", CharClass::kNumber);
  mark("\\p{White_Space}+", CharClass::kSpace);
  return classes;
}

std::vector<bool> read_word_characters() {
  std::vector<bool> is_word(kAllCodePoints);
  for_each_of("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]+", [&](char32_t c) { is_word[c] = true; });
  return is_word;
}

}  // namespace

CharClass unicode_class(char32_t code_point) {
  static const std::vector<CharClass> classes = read_classes();
  return classes[code_point];
}

bool is_word_character(char32_t code_point) {
  if (code_point < 0x80) {
    const CharClass char_class = kAsciiClass[code_point];
    return char_class == CharClass::kLetter || char_class == CharClass::kNumber || code_point == '_';
  }
  static const std::vector<bool> is_word = read_word_characters();
  return is_word[code_point];
}

}  // namespace nibble::model
