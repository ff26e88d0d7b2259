#include "model/tokenizer/words/own_merges.h"

#include <algorithm>
#include <unordered_set>

#include "model/tokenizer/utf8.h"
#include "model/tokenizer/words/merge_queue.h"

namespace nibble::model {
namespace {

/// The tokens of single characters that `token` is spelled with, into `scratch`; false where one is missing.
bool spell(const TokenizerSpec& spec, std::string_view token, WordModel::Scratch& scratch) {
  scratch.symbols.clear();
  for (std::size_t pos = 0; pos < token.size();) {
    const std::size_t length = std::max<std::size_t>(decode_utf8(token, pos).length, 1);
    const auto id = spec.id_of.find(token.substr(pos, length));
    if (id == spec.id_of.end()) return false;
    scratch.symbols.push_back({id->second, 0, 0});
    pos += length;
  }
  return !scratch.symbols.empty();
}

}  // namespace

bool merges_make_every_token(const TokenizerSpec& spec) {
  const MergeTable merges(spec.merges);
  WordModel::Scratch scratch;
  std::unordered_set<TokenId> added;
  for (const AddedToken& token : spec.added) added.insert(token.id);
  return std::ranges::all_of(spec.id_of, [&](const auto& entry) {
    const auto& [token, id] = entry;
    if (added.contains(id)) return true;
    if (!spell(spec, token, scratch)) return false;
    merge_symbols(merges, scratch);
    return scratch.symbols[0].next == WordModel::Scratch::kEnd && scratch.symbols[0].id == id;
  });
}

}  // namespace nibble::model
