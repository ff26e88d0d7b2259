#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::eval {

/// Bits appended to bytes, least significant first.
class BitWriter {
 public:
  /// Appends the lowest `count` bits of `bits`. Requires count <= 32; higher bits are ignored.
  void put(std::uint32_t bits, unsigned count) {
    held_ |= (static_cast<std::uint64_t>(bits) & ((std::uint64_t{1} << count) - 1)) << held_bits_;
    for (held_bits_ += count; held_bits_ >= 8; held_bits_ -= 8, held_ >>= 8)
      bytes_.push_back(static_cast<std::byte>(held_));
  }
  /// The bytes so far, the last one filled up with zeros. Call once.
  std::vector<std::byte> finish();

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t held_ = 0;
  unsigned held_bits_ = 0;
};

/// Reads what BitWriter wrote.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  /// The next `count` bits. Requires count <= 32. Throws FormatError past the end.
  std::uint32_t take(unsigned count) {
    while (held_bits_ < count) refill();
    const auto bits = static_cast<std::uint32_t>(held_ & ((std::uint64_t{1} << count) - 1));
    held_ >>= count;
    held_bits_ -= count;
    return bits;
  }

 private:
  void refill();

  std::span<const std::byte> bytes_;
  std::size_t next_ = 0;
  std::uint64_t held_ = 0;
  unsigned held_bits_ = 0;
};

}  // namespace nibble::eval
