#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// Stored numbers as bit patterns: codes, float16 or float32 values, each in `width` bits.
struct BitPatterns {
  std::vector<std::uint32_t> values;  ///< each below 2^width
  unsigned width = 8;                 ///< 1 … 32
  /// Whether the middle, 2^(width-1), stands for zero (codes of a palette or a grid) rather than 0 itself.
  bool offset_binary = false;
};

/// What is done to the values before they are laid out. All of it is modulo 2^width and can be undone.
enum class ValueStep : std::uint8_t {
  kNone,
  kDelta,        ///< v_i − v_{i−1}
  kZigzag,       ///< 0, −1, 1, −2, … of the value as a signed number become 0, 1, 2, 3, …
  kDeltaZigzag,  ///< both, in this order
};

/// How the values become bytes.
enum class Layout : std::uint8_t {
  kPacked,      ///< a little-endian stream of `width` bits each: as stored, without the padding of rows
  kBytePlanes,  ///< the lowest byte of every value, then the next one of every value, …: a byte per code below 9 bits
  kBitPlanes,   ///< bit 0 of every value, eight to a byte, then bit 1 of every value, …
};

std::string_view step_name(ValueStep step);   ///< "", "delta", "zigzag", "delta+zigzag"
std::string_view layout_name(Layout layout);  ///< "packed", "byte planes", "bit planes"

std::vector<std::uint32_t> apply_step(ValueStep step, const BitPatterns& patterns);
/// Undoes apply_step() on `values`, in place.
void undo_step(ValueStep step, unsigned width, bool offset_binary, std::vector<std::uint32_t>& values);

std::vector<std::byte> lay_out(Layout layout, std::span<const std::uint32_t> values, unsigned width);
/// The inverse, of `count` values. Throws FormatError when `bytes` has not the size that lay_out() makes.
std::vector<std::uint32_t> pick_up(Layout layout, std::span<const std::byte> bytes, std::size_t count, unsigned width);

/// Bytes of `count` values of `width` bits, packed.
constexpr std::size_t packed_bytes(std::size_t count, unsigned width) { return (count * width + 7) / 8; }

}  // namespace nibble::eval
