#include "model/tokenizer/words/bpe.h"

#include <algorithm>

#include "core/error.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/words/byte_alphabet.h"
#include "model/tokenizer/words/merge_queue.h"

namespace nibble::model {

Bpe::Bpe(const TokenizerSpec& spec, bool byte_level)
    : spec_(spec), byte_level_(byte_level), byte_ids_(spec, byte_level), merges_(spec.merges) {}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  NIBBLE_REQUIRE(word.size() < Scratch::kEnd, InvalidArgument, "encode: a word of {} bytes is too long", word.size());
  if (word.empty()) return;
  if (spec_.ignore_merges) {
    const auto whole = byte_level_ ? spec_.id_of.find(spell_bytes(word)) : spec_.id_of.find(word);
    if (whole != spec_.id_of.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  scratch.symbols.clear();
  if (byte_level_) {
    start_with_bytes(word, scratch);
  } else {
    start_with_characters(word, scratch);
  }
  if (scratch.symbols.empty()) return;
  merge_symbols(merges_, scratch);
  for (std::uint32_t i = 0; i != Scratch::kEnd; i = scratch.symbols[i].next) ids.push_back(scratch.symbols[i].id);
}

void Bpe::start_with_bytes(std::string_view word, Scratch& scratch) const {
  bool after_unknown = false;
  for (const char& byte : word) {
    const std::optional<TokenId> id = byte_ids_.find(byte);
    const bool fused = !id && after_unknown && spec_.fuse_unknown;
    const std::optional<TokenId> symbol = id || fused ? id : spec_.unknown;
    if (symbol) scratch.symbols.push_back({*symbol, 0, 0});
    after_unknown = !id;
  }
}

// Hugging Face's order where an unknown character is followed by one that falls back to bytes: the unknown token waits
// for the next character that is a token, behind the bytes.
void Bpe::start_with_characters(std::string_view word, Scratch& scratch) const {
  const auto push = [&](TokenId id) { scratch.symbols.push_back({id, 0, 0}); };
  bool unknown_waits = false;
  for (std::size_t pos = 0; pos < word.size();) {
    const std::string_view character = word.substr(pos, std::max<std::size_t>(decode_utf8(word, pos).length, 1));
    pos += character.size();
    if (const auto id = spec_.id_of.find(character); id != spec_.id_of.end()) {
      if (unknown_waits) push(*spec_.unknown);
      unknown_waits = false;
      push(id->second);
      continue;
    }
    if (spec_.byte_fallback && byte_ids_.spell(character, push)) continue;
    if (!spec_.unknown) continue;
    if (unknown_waits && !spec_.fuse_unknown) push(*spec_.unknown);
    unknown_waits = true;
  }
  if (unknown_waits) push(*spec_.unknown);
}

}  // namespace nibble::model
