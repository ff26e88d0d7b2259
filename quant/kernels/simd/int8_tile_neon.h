#pragma once

#include "quant/kernels/simd/vector_neon.h"

// Vector types of int8_vector_neon*.h as int8_matmul_simd.h wants them. Only *_neon*.cc include this.
namespace nibble::quant {
namespace {

// A tile's sums, 4 registers a token, 4 of weights, 1 input, and what products are made of, of 32 registers.
template <class V, int kTokens>
struct Int8Tile4x128 : V {
  static constexpr int kTilePanels = 1, kTileTokens = kTokens;

  // Four rows of four lanes.
  static void transpose_four(uint8x16_t& r0, uint8x16_t& r1, uint8x16_t& r2, uint8x16_t& r3) {
    const auto even = [](uint8x16_t u, uint8x16_t v) {
      return vreinterpretq_u64_u32(vtrn1q_u32(V::words(u), V::words(v)));
    };
    const auto odd = [](uint8x16_t u, uint8x16_t v) {
      return vreinterpretq_u64_u32(vtrn2q_u32(V::words(u), V::words(v)));
    };
    const uint64x2_t even01 = even(r0, r1), odd01 = odd(r0, r1), even23 = even(r2, r3), odd23 = odd(r2, r3);
    r0 = vreinterpretq_u8_u64(vtrn1q_u64(even01, even23));
    r1 = vreinterpretq_u8_u64(vtrn1q_u64(odd01, odd23));
    r2 = vreinterpretq_u8_u64(vtrn2q_u64(even01, even23));
    r3 = vreinterpretq_u8_u64(vtrn2q_u64(odd01, odd23));
  }

  // Quarters of rows, transposed where they are; then those off the diagonal change places.
  static void transpose(Vector4x128::Bytes (&rows)[16]) {
    uint8x16_t quarters[4][16];
    for (std::size_t i = 0; i < 16; ++i) {
      quarters[0][i] = rows[i].a;
      quarters[1][i] = rows[i].b;
      quarters[2][i] = rows[i].c;
      quarters[3][i] = rows[i].d;
    }
    for (auto& quarter : quarters)
      for (std::size_t i = 0; i < 16; i += 4)
        transpose_four(quarter[i], quarter[i + 1], quarter[i + 2], quarter[i + 3]);
    for (std::size_t i = 0; i < 16; ++i) {
      const uint8x16_t* quarter = quarters[i / 4] + i % 4;
      rows[i] = {quarter[0], quarter[4], quarter[8], quarter[12]};
    }
  }
};

}  // namespace
}  // namespace nibble::quant
