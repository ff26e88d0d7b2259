#include "model/tokenizer/split/regex.h"

#include <optional>

#include "core/error.h"
#include "core/text/utf8.h"

namespace nibble::model {
namespace {

// A run of white space that no line break ends costs `\s*[\r\n]+` a step per character.
constexpr Pattern::Limits kLimits{
    .pattern_bytes = 16384, .steps = 10'000'000, .depth = 1'000'000, .heap_kib = 64 * 1024};

/// `work`, whose FormatError is told with its place.
template <class Work>
auto at_place(const std::string& where, Work work) {
  try {
    return work();
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string where)
    : pattern_(at_place(where, [&] { return Pattern(pattern, Pattern::Over::kUtf8, kLimits); })),
      where_(std::move(where)) {}

void Regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t begin, std::size_t end)>& on_match) const {
  std::optional<std::size_t> last_end;
  for (std::size_t start = 0; start <= text.size();) {
    const auto match = at_place(where_, [&] { return pattern_.search(text, start); });
    if (!match) return;
    // \K in a lookahead may put the match's begin behind its end, or before where the search began.
    NIBBLE_REQUIRE(start <= match->begin && match->begin <= match->end, FormatError,
                   "{}: the pattern moved the start of a match (\\K), which is not supported", where_);
    if (match->begin < match->end || last_end != match->end) {
      start = match->end;
      last_end = match->end;
      on_match(match->begin, match->end);
    } else {
      if (match->end == text.size()) return;
      start = match->end + decode_utf8(text, match->end).length;
    }
  }
}

}  // namespace nibble::model
