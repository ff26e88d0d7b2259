#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace nibble::coreml {

/// Takes bytes in order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Packs codes of 1 to 8 bits as Core ML stores them: the whole tensor is one little-endian bit stream without padding
/// between rows, the first code in the lowest bits. Hands on whole bytes as they fill up; finish() the last one, padded
/// with zeros.
class BitPacker {
 public:
  BitPacker(unsigned bits, ByteSink sink) : bits_(bits), sink_(std::move(sink)) {}

  /// Requires every code < 2^bits.
  void append(std::span<const std::uint8_t> codes) {
    bytes_.clear();
    for (const std::uint8_t code : codes) {
      pending_ |= std::uint32_t{code} << filled_;
      for (filled_ += bits_; filled_ >= 8; filled_ -= 8, pending_ >>= 8u)
        bytes_.push_back(static_cast<std::byte>(pending_ & 0xFFu));
    }
    if (!bytes_.empty()) sink_(bytes_);
  }
  void finish() {
    if (filled_ == 0) return;
    const std::byte last{static_cast<std::uint8_t>(pending_ & 0xFFu)};
    sink_({&last, 1});
    filled_ = 0, pending_ = 0;
  }

 private:
  unsigned bits_, filled_ = 0;
  std::uint32_t pending_ = 0;
  ByteSink sink_;
  std::vector<std::byte> bytes_;
};

/// Code `index` of such a stream. Requires it to lie inside `bytes`.
inline unsigned code_at(std::span<const std::byte> bytes, std::uint64_t index, unsigned bits) {
  const std::uint64_t first = index * bits;
  const auto at = static_cast<std::size_t>(first / 8);
  const auto shift = static_cast<unsigned>(first % 8);
  unsigned value = std::to_integer<unsigned>(bytes[at]) >> shift;
  if (shift + bits > 8) value |= std::to_integer<unsigned>(bytes[at + 1]) << (8 - shift);
  return value & ((1u << bits) - 1u);
}

}  // namespace nibble::coreml
