#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/token_id.h"

namespace nibble::model {

/// Remembers the ids of short words in 4 MiB of slots; a newer word takes the place of an older one of the same slot.
/// One thread at a time.
class WordCache {
 public:
  /// True if `word` is short enough to be remembered.
  static bool may_hold(std::string_view word) { return !word.empty() && word.size() <= kMaxWordBytes; }
  /// The ids of `word`, valid until the next remember(); empty if they are not known.
  std::span<const TokenId> find(std::string_view word) const;
  /// Does nothing for words of no or many bytes or ids.
  void remember(std::string_view word, std::span<const TokenId> ids);

 private:
  static constexpr std::size_t kMaxWordBytes = 30;
  static constexpr std::size_t kSlots = std::size_t{1} << 16;
  struct alignas(64) Slot {
    std::array<TokenId, 8> ids;
    std::uint8_t id_count = 0;
    std::uint8_t word_size = 0;
    std::array<char, kMaxWordBytes> word;
  };
  static std::size_t slot_of(std::string_view word);

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace nibble::model
