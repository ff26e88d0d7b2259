#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "model/tokenizer/spec.h"

namespace nibble::model {

/// The tokens of the 256 single bytes, where the vocabulary has them.
class ByteIds {
 public:
  /// <0x00> … <0xFF>, or if `byte_level` the characters of GPT-2's byte alphabet.
  ByteIds(const TokenizerSpec& spec, bool byte_level);

  std::optional<TokenId> find(char byte) const { return ids_[static_cast<unsigned char>(byte)]; }
  /// Appends the ids of all bytes of `text`. False, appending nothing, if one has none.
  template <class OnId>
  bool spell(std::string_view text, OnId&& on_id) const {
    for (const char byte : text) {
      if (!find(byte)) return false;
    }
    for (const char byte : text) on_id(*find(byte));
    return true;
  }

 private:
  std::array<std::optional<TokenId>, 256> ids_;
};

}  // namespace nibble::model
