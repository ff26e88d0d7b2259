#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace nibble::model {

/// Finds which of a set of texts are at the start of a text. Its edges lie in one hash table with open addressing, at
/// most half full: a step costs one look, and memory is about 32 bytes per edge.
class Trie {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// Adds `text`, not empty; `value` < kNone. False, changing nothing, if the text is there already.
  bool insert(std::string_view text, std::uint32_t value);

  /// Calls on_match(length, value) for every text that `text` starts with, shortest first.
  template <class OnMatch>
  void for_each_prefix(std::string_view text, OnMatch&& on_match) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = slots_[slot_of(key_of(node, text[i]))].child;
      if (node == kNone) return;
      if (value_[node] != kNone) on_match(i + 1, value_[node]);
    }
  }

  struct Match {
    std::size_t length = 0;  // 0: none
    std::uint32_t value = kNone;
  };
  Match longest_prefix(std::string_view text) const {
    Match longest;
    for_each_prefix(text, [&](std::size_t length, std::uint32_t value) { longest = {length, value}; });
    return longest;
  }

  bool empty() const { return value_.size() == 1; }

 private:
  static constexpr std::uint64_t kEmpty = std::numeric_limits<std::uint64_t>::max();
  struct Slot {
    std::uint64_t key = kEmpty;
    std::uint32_t child = kNone;
  };
  static std::uint64_t key_of(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  void grow();

  unsigned shift_ = 60;  // 64 - log2(slots)
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::vector<std::uint32_t> value_ = {kNone};  // of each node; node 0 is the root
};

}  // namespace nibble::model
