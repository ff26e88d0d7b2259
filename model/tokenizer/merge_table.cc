#include "model/tokenizer/merge_table.h"

#include <bit>

namespace nibble::model {

MergeTable::MergeTable(std::span<const TokenizerSpec::Merge> merges) : slots_(std::bit_ceil(2 * merges.size() + 2)) {
  shift_ = 64u - static_cast<unsigned>(std::countr_zero(slots_.size()));
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t key = key_of(merges[rank].left, merges[rank].right);
    slots_[slot_of(key)] = {key, {static_cast<std::uint32_t>(rank), merges[rank].merged}};
  }
}

}  // namespace nibble::model
