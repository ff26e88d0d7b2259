#include "model/tokenizer/words/trie.h"

#include <utility>

namespace nibble::model {

bool Trie::insert(std::string_view text, std::uint32_t value) {
  std::uint32_t node = 0;
  for (const char byte : text) {
    const std::uint64_t key = key_of(node, byte);
    std::size_t slot = slot_of(key);
    if (slots_[slot].key == kEmpty) {
      if (2 * value_.size() > slots_.size()) {
        grow();
        slot = slot_of(key);
      }
      slots_[slot] = {key, static_cast<std::uint32_t>(value_.size())};
      value_.push_back(kNone);
    }
    node = slots_[slot].child;
  }
  if (value_[node] != kNone) return false;
  value_[node] = value;
  return true;
}

void Trie::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  --shift_;
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) slots_[slot_of(slot.key)] = slot;
  }
}

}  // namespace nibble::model
