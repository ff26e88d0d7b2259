#include "model/tokenizer/split/gpt2_pattern.h"

#include "model/tokenizer/split/char_class.h"

namespace nibble::model {
namespace {

/// Length of 's, 't, 're, 've, 'm, 'll or 'd at text[pos], else 0.
std::size_t contraction_length(std::string_view text, std::size_t pos) {
  if (text[pos] != '\'' || pos + 1 >= text.size()) return 0;
  const char first = text[pos + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (pos + 2 >= text.size()) return 0;
  const char second = text[pos + 2];
  const bool two_letters = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two_letters ? 3 : 0;
}

/// End of the run of characters of one class that goes on at text[pos].
std::size_t run_end(std::string_view text, std::size_t pos, CharClass char_class) {
  while (pos < text.size()) {
    const ClassifiedChar c = classify(text, pos);
    if (c.char_class != char_class) break;
    pos += c.length;
  }
  return pos;
}

/// End of the match of \s+(?!\S)|\s+ at text[pos], a space: the run of spaces, without its last one if something
/// follows and that leaves any.
std::size_t spaces_end(std::string_view text, std::size_t pos) {
  std::size_t last = pos;
  std::size_t end = pos;
  while (end < text.size()) {
    const ClassifiedChar c = classify(text, end);
    if (c.char_class != CharClass::kSpace) return last > pos ? last : end;
    last = end;
    end += c.length;
  }
  return end;
}

}  // namespace

void for_each_gpt2_match(std::string_view text,
                         const std::function<void(std::size_t begin, std::size_t end)>& on_match) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + contraction_length(text, begin);
    if (end == begin) {
      const std::size_t word = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
      const ClassifiedChar first = classify(text, word);
      end = first.char_class == CharClass::kSpace ? spaces_end(text, begin)
                                                  : run_end(text, word + first.length, first.char_class);
    }
    on_match(begin, end);
    begin = end;
  }
}

}  // namespace nibble::model
