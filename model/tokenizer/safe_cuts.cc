#include "model/tokenizer/safe_cuts.h"

#include <algorithm>

namespace nibble::model {
namespace {

constexpr std::string_view kSpace = "\u2581";

/// The first place > 0 where a space follows something else, else text.size().
std::size_t next_cut(std::string_view text) {
  for (std::size_t at = text.find(kSpace, 1); at != std::string_view::npos; at = text.find(kSpace, at + 1)) {
    if (!text.substr(0, at).ends_with(kSpace)) return at;
  }
  return text.size();
}

}  // namespace

// A space must be a token: an unknown character could be fused with one before it.
SafeCuts::SafeCuts(const TokenizerSpec& spec, bool byte_level)
    : cuts_before_spaces_(!byte_level && !spec.ignore_merges && spec.id_of.contains(kSpace) &&
                          std::all_of(spec.merges.begin(), spec.merges.end(), [&](const auto& merge) {
                            const std::string& token = spec.tokens[merge.merged];
                            return next_cut(token) == token.size();
                          })) {}

void SafeCuts::split(std::string_view word, const WordSink& on_piece) const {
  while (!word.empty()) {
    const std::size_t end = cuts_before_spaces_ ? next_cut(word) : word.size();
    on_piece(word.substr(0, end));
    word.remove_prefix(end);
  }
}

}  // namespace nibble::model
