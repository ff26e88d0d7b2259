#include "model/tokenizer/split/matcher.h"

#include "model/tokenizer/split/gpt2_pattern.h"
#include "model/tokenizer/split/oniguruma.h"
#include "model/tokenizer/split/regex.h"

namespace nibble::model {

Matcher make_matcher(const std::string& pattern, bool literal, const std::string& where) {
  if (literal) {
    return [pattern](std::string_view text, const MatchSink& on_match) {
      for (std::size_t at = text.find(pattern); at != std::string_view::npos;) {
        const std::size_t end = at + pattern.size();
        on_match(at, end);
        at = text.find(pattern, end);
      }
    };
  }
  if (pattern == kGpt2Pattern) return for_each_gpt2_match;
  return [regex = Regex(pcre2_pattern(pattern, where), where)](std::string_view text, const MatchSink& on_match) {
    regex.for_each_match(text, on_match);
  };
}

}  // namespace nibble::model
