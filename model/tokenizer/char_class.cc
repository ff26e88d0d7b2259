#include "model/tokenizer/char_class.h"

#include <string>
#include <vector>

#include "model/tokenizer/regex.h"

namespace nibble::model {
namespace {

constexpr char32_t kCodePoints = 0x110000;

std::vector<CharClass> read_classes() {
  std::string every_character;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(every_character, c);
  }
  std::vector<CharClass> classes(kCodePoints, CharClass::kOther);
  const auto mark = [&](std::string_view runs_of_class, CharClass char_class) {
    const Regex regex(runs_of_class, Regex::Syntax::kRegex, "Unicode classes");
    regex.for_each_match(every_character, [&](std::size_t begin, std::size_t end) {
      while (begin < end) {
        const Utf8Char c = decode_utf8(every_character, begin);
        classes[c.code_point] = char_class;
        begin += c.length;
      }
    });
  };
  mark("\\p{L}+", CharClass::kLetter);
  mark("\\p{N}+", CharClass::kNumber);
  mark("\\s+", CharClass::kSpace);
  return classes;
}

}  // namespace

CharClass unicode_class(char32_t code_point) {
  static const std::vector<CharClass> classes = read_classes();
  return classes[code_point];
}

}  // namespace nibble::model
