#include "model/tokenizer/words/word_cache.h"

#include <algorithm>
#include <functional>

namespace nibble::model {

std::size_t WordCache::slot_of(std::string_view word) { return std::hash<std::string_view>{}(word) % kSlots; }

std::span<const TokenId> WordCache::find(std::string_view word) const {
  if (!may_hold(word)) return {};
  const Slot& slot = slots_[slot_of(word)];
  if (std::string_view(slot.word.data(), slot.word_size) != word) return {};
  return std::span(slot.ids).first(slot.id_count);
}

void WordCache::remember(std::string_view word, std::span<const TokenId> ids) {
  if (!may_hold(word) || ids.empty() || ids.size() > Slot{}.ids.size()) return;
  Slot& slot = slots_[slot_of(word)];
  std::copy(word.begin(), word.end(), slot.word.begin());
  std::copy(ids.begin(), ids.end(), slot.ids.begin());
  slot.word_size = static_cast<std::uint8_t>(word.size());
  slot.id_count = static_cast<std::uint8_t>(ids.size());
}

}  // namespace nibble::model
