#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nibble::quant {

/// The widest code. Widths of 1 to 8 bits are packed.
constexpr unsigned kMaxBits = 8;

/// Bytes of a packed row: ceil(count · bits / 8).
constexpr std::size_t packed_row_bytes(std::size_t count, unsigned bits) {
  return count / 8 * bits + (count % 8 * bits + 7) / 8;  // without overflow for any count that fits in memory
}

/// Packs a row as one little-endian bit stream: bit b of code j is bit j·bits + b of the row, least significant bit of
/// each byte first; the row is padded to whole bytes with zeros. For 4 bits: even codes in the low halves of the bytes.
///
/// Throws InvalidArgument: bits not in 1 … 8, row.size() != packed_row_bytes(codes.size(), bits), a code >= 2^bits.
void pack_codes(std::span<const std::uint8_t> codes, unsigned bits, std::span<std::byte> row);

/// The inverse: codes.size() codes from a row of packed_row_bytes(codes.size(), bits) bytes. Throws as pack_codes().
void unpack_codes(std::span<const std::byte> row, unsigned bits, std::span<std::uint8_t> codes);

}  // namespace nibble::quant
