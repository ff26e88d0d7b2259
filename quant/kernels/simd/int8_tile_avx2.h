#pragma once

#include "quant/kernels/simd/vector_avx2.h"

// Vector types of int8_vector_avx2*.h as int8_matmul_simd.h wants them. Only *_avx2*.cc include this.
namespace nibble::quant {
namespace {

template <class V>
struct Int8Tile2x256 : V {
  static void store_bytes(std::uint8_t* p, Vector2x256::Bytes v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.high);
  }

  static void transpose_eight(__m256i (&rows)[8]) {
    __m256i pairs[8], fours[8];
    for (std::size_t i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for (std::size_t q = 0; q < 8; q += 4) {
      fours[q] = _mm256_unpacklo_epi64(pairs[q], pairs[q + 2]);
      fours[q + 1] = _mm256_unpackhi_epi64(pairs[q], pairs[q + 2]);
      fours[q + 2] = _mm256_unpacklo_epi64(pairs[q + 1], pairs[q + 3]);
      fours[q + 3] = _mm256_unpackhi_epi64(pairs[q + 1], pairs[q + 3]);
    }
    for (std::size_t c = 0; c < 4; ++c) {
      rows[c] = _mm256_permute2x128_si256(fours[c], fours[4 + c], 0x20);
      rows[4 + c] = _mm256_permute2x128_si256(fours[c], fours[4 + c], 0x31);
    }
  }

  // Quarters are transposed where they are, but the two off the diagonal, which change places.
  static void transpose(Vector2x256::Bytes (&rows)[16]) {
    __m256i quarters[4][8];
    for (std::size_t i = 0; i < 8; ++i) {
      quarters[0][i] = rows[i].low;
      quarters[1][i] = rows[8 + i].low;
      quarters[2][i] = rows[i].high;
      quarters[3][i] = rows[8 + i].high;
    }
    for (auto& quarter : quarters) transpose_eight(quarter);
    for (std::size_t i = 0; i < 8; ++i) {
      rows[i] = {quarters[0][i], quarters[1][i]};
      rows[8 + i] = {quarters[2][i], quarters[3][i]};
    }
  }
};

}  // namespace
}  // namespace nibble::quant
