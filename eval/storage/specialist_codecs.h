#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::eval {

/// Simple-8b (Anh and Moffat, "Index compression using 64-bit words", 2010): each 64-bit word holds a selector of 4
/// bits and as many integers of one width as fit in 60 bits: 240 or 120 zeros, 60 of 1 bit, 30 of 2, … 1 of 60.
std::vector<std::byte> simple8b_encode(std::span<const std::uint32_t> values);
/// The inverse, of `count` values. Throws FormatError for a truncated stream or a value that needs more than 32 bits.
std::vector<std::uint32_t> simple8b_decode(std::span<const std::byte> bytes, std::size_t count);

/// The XOR code of Gorilla (Pelkonen et al., "Gorilla: a fast, scalable, in-memory time series database", 2015) for
/// floats of `width` = 16 or 32 bits, with fields of log2(width) bits instead of 5 and 6: the first value as it is;
/// then per value '0' when it repeats, '10' and the bits in the former window of non-zero bits, or '11', leading zeros,
/// length, bits. Throws InvalidArgument for another width.
std::vector<std::byte> gorilla_encode(std::span<const std::uint32_t> values, unsigned width);
/// The inverse, of `count` values. Throws FormatError for a truncated or inconsistent stream.
std::vector<std::uint32_t> gorilla_decode(std::span<const std::byte> bytes, std::size_t count, unsigned width);

}  // namespace nibble::eval
