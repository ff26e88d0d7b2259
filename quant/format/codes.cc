#include "quant/format/codes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"

namespace nibble::quant {
namespace {

// Eight codes are exactly `bits` bytes, whatever the width, so a row is a sequence of such words and one shorter one.
constexpr std::size_t kWordCodes = 8;
static_assert(std::endian::native == std::endian::little, "words are stored as they lie");

void check_sizes(std::size_t codes, unsigned bits, std::size_t row_bytes) {
  NIBBLE_REQUIRE(bits >= 1 && bits <= kMaxBits, InvalidArgument, "packed codes: expected 1 to {} bits, got {}",
                 kMaxBits, bits);
  NIBBLE_REQUIRE(row_bytes == packed_row_bytes(codes, bits), InvalidArgument,
                 "packed codes: {} codes of {} bits fill {} bytes, got {}", codes, bits, packed_row_bytes(codes, bits),
                 row_bytes);
}

std::uint64_t join(const std::uint8_t* codes, std::size_t count, unsigned bits) {
  std::uint64_t word = 0;
  for (std::size_t j = 0; j < count; ++j) word |= static_cast<std::uint64_t>(codes[j]) << (j * bits);
  return word;
}

void split(std::uint64_t word, std::size_t count, unsigned bits, std::uint8_t* codes) {
  const std::uint64_t mask = (1u << bits) - 1;
  for (std::size_t j = 0; j < count; ++j) codes[j] = static_cast<std::uint8_t>(word >> (j * bits) & mask);
}

// Widths known to the compiler: it unrolls.
template <unsigned kBits>
void pack_words(const std::uint8_t* codes, std::size_t words, std::byte* row) {
  for (std::size_t w = 0; w < words; ++w) {
    const std::uint64_t word = join(codes + w * kWordCodes, kWordCodes, kBits);
    std::memcpy(row + w * kBits, &word, kBits);  // little-endian, as the format is
  }
}

void pack_halves(const std::uint8_t* codes, std::size_t bytes, std::byte* row) {
  for (std::size_t i = 0; i < bytes; ++i)
    row[i] = static_cast<std::byte>(codes[2 * i] | static_cast<unsigned>(codes[2 * i + 1]) << 4);
}

void store_word(std::uint64_t word, std::size_t bytes, std::byte* destination) {
  for (std::size_t i = 0; i < bytes; ++i) destination[i] = static_cast<std::byte>(word >> (8 * i) & 0xFF);
}

std::uint64_t load_word(const std::byte* source, std::size_t bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(source[i]) << (8 * i);
  return word;
}

template <unsigned kBits>
void unpack_words(const std::byte* row, std::size_t words, std::uint8_t* codes) {
  for (std::size_t w = 0; w < words; ++w) split(load_word(row + w * kBits, kBits), kWordCodes, kBits, codes + w * 8);
}

// Simpler than words for the commonest width, and the compiler vectorises it.
void unpack_halves(const std::byte* row, std::size_t bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(row[i]);
    codes[2 * i] = byte & 0xF;
    codes[2 * i + 1] = byte >> 4;
  }
}

}  // namespace

void pack_codes(std::span<const std::uint8_t> codes, unsigned bits, std::span<std::byte> row) {
  check_sizes(codes.size(), bits, row.size());
  std::uint8_t all = 0;
  for (const std::uint8_t code : codes) all |= code;
  if (all >> bits != 0) {
    const auto bad = std::find_if(codes.begin(), codes.end(), [&](std::uint8_t code) { return code >> bits != 0; });
    throw InvalidArgument(
        fmt::format("packed codes: code {} at index {} does not fit in {} bits", *bad, bad - codes.begin(), bits));
  }
  const std::size_t words = codes.size() / kWordCodes;
  switch (bits) {
    case 1:
      pack_words<1>(codes.data(), words, row.data());
      break;
    case 2:
      pack_words<2>(codes.data(), words, row.data());
      break;
    case 3:
      pack_words<3>(codes.data(), words, row.data());
      break;
    case 4:
      pack_halves(codes.data(), words * 4, row.data());
      break;
    case 5:
      pack_words<5>(codes.data(), words, row.data());
      break;
    case 6:
      pack_words<6>(codes.data(), words, row.data());
      break;
    case 7:
      pack_words<7>(codes.data(), words, row.data());
      break;
    default:
      if (words > 0) std::memcpy(row.data(), codes.data(), words * kWordCodes);
      break;
  }
  const std::size_t rest = codes.size() - words * kWordCodes;
  store_word(join(codes.data() + words * kWordCodes, rest, bits), packed_row_bytes(rest, bits),
             row.data() + words * bits);
}

void unpack_codes(std::span<const std::byte> row, unsigned bits, std::span<std::uint8_t> codes) {
  check_sizes(codes.size(), bits, row.size());
  const std::size_t words = codes.size() / kWordCodes;
  switch (bits) {  // widths known to the compiler: it unrolls and vectorises
    case 1:
      unpack_words<1>(row.data(), words, codes.data());
      break;
    case 2:
      unpack_words<2>(row.data(), words, codes.data());
      break;
    case 3:
      unpack_words<3>(row.data(), words, codes.data());
      break;
    case 4:
      unpack_halves(row.data(), words * 4, codes.data());
      break;
    case 5:
      unpack_words<5>(row.data(), words, codes.data());
      break;
    case 6:
      unpack_words<6>(row.data(), words, codes.data());
      break;
    case 7:
      unpack_words<7>(row.data(), words, codes.data());
      break;
    default:
      if (words > 0) std::memcpy(codes.data(), row.data(), words * kWordCodes);
      break;
  }
  const std::size_t rest = codes.size() - words * kWordCodes;
  split(load_word(row.data() + words * bits, packed_row_bytes(rest, bits)), rest, bits,
        codes.data() + words * kWordCodes);
}

}  // namespace nibble::quant
