#include "model/tokenizer/words/merge_queue.h"

#include <algorithm>
#include <functional>

namespace nibble::model {

void merge_symbols(const MergeTable& merges, WordModel::Scratch& scratch) {
  using Scratch = WordModel::Scratch;
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i].previous = i == 0 ? Scratch::kEnd : i - 1;
    symbols[i].next = i + 1 == count ? Scratch::kEnd : i + 1;
  }
  constexpr TokenId kGone = std::numeric_limits<TokenId>::max();  // id of a symbol that was merged into its left one
  const auto find = [&](std::uint32_t left) {
    const std::uint32_t right = symbols[left].next;
    if (right == Scratch::kEnd || symbols[left].id == kGone) return MergeTable::Found{MergeTable::kNone, 0};
    return merges.find(symbols[left].id, symbols[right].id);
  };
  const auto entry = [](std::uint32_t rank, std::uint32_t position) { return std::uint64_t{rank} << 32 | position; };
  const auto push = [&](std::uint32_t left) {
    const std::uint32_t rank = find(left).rank;
    if (rank == MergeTable::kNone) return;
    queue.push_back(entry(rank, left));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };

  queue.clear();
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    const std::uint32_t rank = find(i).rank;
    if (rank != MergeTable::kNone) queue.push_back(entry(rank, i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    const std::uint64_t top = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    const auto left = static_cast<std::uint32_t>(top);
    const MergeTable::Found found = find(left);
    if (found.rank != top >> 32) continue;  // one of the two has been merged since: a stale entry
    const std::uint32_t right = symbols[left].next;
    symbols[left].id = found.merged;
    symbols[left].next = symbols[right].next;
    symbols[right].id = kGone;
    if (symbols[left].next != Scratch::kEnd) symbols[symbols[left].next].previous = left;
    push(left);
    if (symbols[left].previous != Scratch::kEnd) push(symbols[left].previous);
  }
}

}  // namespace nibble::model
