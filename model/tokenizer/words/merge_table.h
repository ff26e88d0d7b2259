#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// A merge, and when it is its turn: lower ranks go first, the leftmost of equals.
struct RankedMerge {
  TokenizerSpec::Merge merge;
  std::uint32_t rank;
};

/// Looks up the merge of two tokens: a hash table with open addressing, at most half full.
class MergeTable {
 public:
  struct Found {
    std::uint32_t rank;  // kNone if there is no such merge
    TokenId merged;
  };
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// Ranked by their positions. Of two merges of the same pair the later counts, as in Hugging Face's tokenizers.
  explicit MergeTable(std::span<const TokenizerSpec::Merge> merges);
  explicit MergeTable(std::span<const RankedMerge> merges);

  Found find(TokenId left, TokenId right) const { return slots_[slot_of(key_of(left, right))].found; }

 private:
  static constexpr std::uint64_t kEmpty = std::numeric_limits<std::uint64_t>::max();
  struct Slot {
    std::uint64_t key = kEmpty;
    Found found{kNone, 0};
  };
  static std::uint64_t key_of(TokenId left, TokenId right) { return std::uint64_t{left} << 32 | right; }
  /// The slot that holds the key, or the empty one where it would go.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  void reserve(std::size_t merges);
  void set(const TokenizerSpec::Merge& merge, std::uint32_t rank);

  unsigned shift_ = 0;  // 64 - log2(slots)
  std::vector<Slot> slots_;
};

}  // namespace nibble::model
