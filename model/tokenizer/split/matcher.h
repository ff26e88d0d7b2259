#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace nibble::model {

using MatchSink = std::function<void(std::size_t begin, std::size_t end)>;
/// Calls on_match for all matches in a text of valid UTF-8, leftmost first, none overlapping.
using Matcher = std::function<void(std::string_view text, const MatchSink& on_match)>;

/// A matcher for a pattern of a tokenizer file: a text that is looked for (`literal`), or a regex in Oniguruma's
/// syntax, which Hugging Face uses. GPT-2's own pattern, wherever it comes from, is matched by hand-written code: same
/// words, several times faster. `where` names the origin in messages. Throws FormatError for a pattern that does not
/// compile or means something that PCRE2 cannot say.
Matcher make_matcher(const std::string& pattern, bool literal, const std::string& where);

}  // namespace nibble::model
