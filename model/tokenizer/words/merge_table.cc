#include "model/tokenizer/words/merge_table.h"

#include <bit>

namespace nibble::model {

MergeTable::MergeTable(std::span<const TokenizerSpec::Merge> merges) {
  reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) set(merges[rank], static_cast<std::uint32_t>(rank));
}

MergeTable::MergeTable(std::span<const RankedMerge> merges) {
  reserve(merges.size());
  for (const RankedMerge& ranked : merges) set(ranked.merge, ranked.rank);
}

void MergeTable::reserve(std::size_t merges) {
  slots_.resize(std::bit_ceil(2 * merges + 2));
  shift_ = 64u - static_cast<unsigned>(std::countr_zero(slots_.size()));
}

void MergeTable::set(const TokenizerSpec::Merge& merge, std::uint32_t rank) {
  const std::uint64_t key = key_of(merge.left, merge.right);
  slots_[slot_of(key)] = {key, {rank, merge.merged}};
}

}  // namespace nibble::model
