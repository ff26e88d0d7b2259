#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace nibble {

/// Content fingerprints: XXH3, 128 bits, as 32 hex digits. Fast and stable across machines; tells contents apart that
/// differ by accident, and is no defence against somebody who builds a collision on purpose.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  Hasher& update(std::span<const std::byte> bytes);
  /// Adds the text's length and its bytes, so that ("ab", "c") and ("a", "bc") differ.
  Hasher& update(std::string_view text);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_hex(std::span<const std::byte> bytes);

}  // namespace nibble
