#pragma once

#include <cstddef>
#include <cstdint>

// Bytes of the block types of 256 weights that are both read and written.
namespace nibble::model {

constexpr std::size_t kSuperBlock = 256;                 ///< weights
constexpr int kLeastMultiple = -32, kMostMultiple = 31;  ///< k - 32 below

/// value = d (k - 32) (q - 4) with k the 6 bits of a scale for 16 weights and q the 3 bits of a code.
struct Q3_K {
  std::uint8_t third[32];  ///< bit s of byte l: the third bit of weight 32 s + l; clear means 4 less
  std::uint8_t codes[64];  ///< bits 2s and 2s + 1 of byte 32 n + l: the lower two of weight 128 n + 32 s + l
  /// Of scale i the low 4 bits are in byte i, from 8 on the high half of byte i - 8; its high 2 are in byte 8 + i % 4,
  /// from bit 2 floor(i / 4) on.
  std::uint8_t scales[12];
  std::uint16_t d;
};

/// value = d (k - 32) table[q] with k the 6 bits of a scale for 32 weights and q a code of IQ4_NL.
struct Iq4Xs {
  std::uint16_t d;
  std::uint16_t scales_high;   ///< bits 2s and 2s + 1: the high 2 of scale s
  std::uint8_t scales_low[4];  ///< a nibble for each scale, the first one's below
  std::uint8_t codes[128];     ///< byte 16 s + j: weight 32 s + j below, 32 s + j + 16 above
};

static_assert(sizeof(Q3_K) == 110 && sizeof(Iq4Xs) == 136);

}  // namespace nibble::model
