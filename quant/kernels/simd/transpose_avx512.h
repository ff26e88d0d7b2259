#pragma once

#include <immintrin.h>

#include <cstddef>

// Only *_avx512*.cc and *_amx.cc include this.
namespace nibble::quant {
namespace {

/// Lane l of rows[v] changes places with lane v of rows[l], of 32 bits each.
inline void transpose_lanes(__m512i (&rows)[16]) {
  __m512i pairs[16], fours[16];
  for (std::size_t i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // fours[4 q + c]: in quarter k of 128 bits, lane 4 k + c of rows 4 q … 4 q + 3.
  for (std::size_t q = 0; q < 16; q += 4) {
    fours[q] = _mm512_unpacklo_epi64(pairs[q], pairs[q + 2]);
    fours[q + 1] = _mm512_unpackhi_epi64(pairs[q], pairs[q + 2]);
    fours[q + 2] = _mm512_unpacklo_epi64(pairs[q + 1], pairs[q + 3]);
    fours[q + 3] = _mm512_unpackhi_epi64(pairs[q + 1], pairs[q + 3]);
  }
  for (std::size_t c = 0; c < 4; ++c) {
    const __m512i even_low = _mm512_shuffle_i32x4(fours[c], fours[4 + c], 0x88),
                  even_high = _mm512_shuffle_i32x4(fours[8 + c], fours[12 + c], 0x88),
                  odd_low = _mm512_shuffle_i32x4(fours[c], fours[4 + c], 0xDD),
                  odd_high = _mm512_shuffle_i32x4(fours[8 + c], fours[12 + c], 0xDD);
    rows[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    rows[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    rows[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xDD);
    rows[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD);
  }
}

}  // namespace
}  // namespace nibble::quant
