#include "model/tokenizer/words/scored_bpe.h"

#include <algorithm>

#include "core/error.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/words/merge_queue.h"

namespace nibble::model {

ScoredBpe::ScoredBpe(const TokenizerSpec& spec)
    : spec_(spec),
      byte_ids_(spec, false),
      pieces_(piece_merges(spec)),
      merges_(pieces_.merges),
      no_piece_(static_cast<TokenId>(spec.tokens.size() + pieces_.characters.size())),
      first_frozen_(no_piece_ + 1) {
  pieces_.merges = {};
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const bool frozen =
        spec.kind(static_cast<TokenId>(id)) == TokenizerSpec::PieceKind::kUserDefined && !spec.tokens[id].empty();
    if (frozen) user_defined_.insert(spec.tokens[id], static_cast<TokenId>(id));
  }
}

TokenId ScoredBpe::symbol_at(std::string_view text, std::size_t& length) const {
  if (!user_defined_.empty()) {
    if (const Trie::Match match = user_defined_.longest_prefix(text); match.length > 0) {
      length = match.length;
      return first_frozen_ + match.value;
    }
  }
  length = std::max<std::size_t>(decode_utf8(text, 0).length, 1);
  const std::string_view character = text.substr(0, length);
  if (const auto piece = spec_.id_of.find(character); piece != spec_.id_of.end()) return piece->second;
  const auto half = pieces_.characters.find(character);
  return half != pieces_.characters.end() ? half->second : no_piece_;
}

void ScoredBpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  NIBBLE_REQUIRE(word.size() < Scratch::kEnd, InvalidArgument, "encode: a word of {} bytes is too long", word.size());
  if (word.empty()) return;
  scratch.symbols.clear();
  scratch.starts.clear();
  for (std::size_t pos = 0; pos < word.size();) {
    std::size_t length = 0;
    scratch.symbols.push_back({symbol_at(word.substr(pos), length), 0, 0});
    scratch.starts.push_back(static_cast<std::uint32_t>(pos));
    pos += length;
  }
  merge_symbols(merges_, scratch);
  bool after_unknown = false;
  for (std::uint32_t i = 0; i != Scratch::kEnd; i = scratch.symbols[i].next) {
    const TokenId id = scratch.symbols[i].id;
    const bool is_piece = id < spec_.tokens.size();
    const bool is_frozen = id >= first_frozen_;
    if (is_piece || is_frozen) {
      ids.push_back(is_frozen ? id - first_frozen_ : id);
      after_unknown = false;
      continue;
    }
    const std::size_t end = i + 1 < scratch.starts.size() ? scratch.starts[i + 1] : word.size();
    const std::string_view character = word.substr(scratch.starts[i], end - scratch.starts[i]);
    const bool in_bytes =
        spec_.byte_fallback && byte_ids_.spell(character, [&](TokenId byte_id) { ids.push_back(byte_id); });
    if (!in_bytes && !spec_.unknown) throw_no_token(spec_.where, character);
    if (!in_bytes && !after_unknown) ids.push_back(*spec_.unknown);
    after_unknown = !in_bytes;
  }
}

}  // namespace nibble::model
