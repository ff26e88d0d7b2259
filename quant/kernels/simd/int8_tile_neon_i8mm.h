#pragma once

#include "quant/kernels/simd/int8_tile_neon.h"
#include "quant/kernels/simd/int8_vector_neon_i8mm.h"

// Int8Tile4x128 with matrix products: USMMLA multiplies two rows by two tokens, eight inputs each, twice what USDOT
// does. Only int8_matmul_neon_i8mm.cc includes this.
namespace nibble::quant {
namespace {

// 16 sums, 8 of weights, 1 of inputs of 32 registers.
struct Int8MatrixTile : Int8Tile4x128<Int8Vector4x128<MixedDot>, 4> {
  struct Eights {
    uint8x16_t rows[8];  ///< rows 2 i and 2 i + 1
  };
  struct PairSums {
    int32x4_t rows[8];  ///< row 2 i of both tokens, row 2 i + 1 of both
  };

  static PairSums begin_pair(Sums x, Sums y) {
    return {{vzip1q_s32(x.a, y.a), vzip2q_s32(x.a, y.a), vzip1q_s32(x.b, y.b), vzip2q_s32(x.b, y.b),
             vzip1q_s32(x.c, y.c), vzip2q_s32(x.c, y.c), vzip1q_s32(x.d, y.d), vzip2q_s32(x.d, y.d)}};
  }
  static Sums first_of_pair(const PairSums& s) {
    return {vuzp1q_s32(s.rows[0], s.rows[1]), vuzp1q_s32(s.rows[2], s.rows[3]), vuzp1q_s32(s.rows[4], s.rows[5]),
            vuzp1q_s32(s.rows[6], s.rows[7])};
  }
  static Sums second_of_pair(const PairSums& s) {
    return {vuzp2q_s32(s.rows[0], s.rows[1]), vuzp2q_s32(s.rows[2], s.rows[3]), vuzp2q_s32(s.rows[4], s.rows[5]),
            vuzp2q_s32(s.rows[6], s.rows[7])};
  }

  // The fours of a row side by side.
  static void pair_fours(std::uint8_t* p) {
    const Bytes first = load_bytes(p), second = load_bytes(p + 64);
    const auto low = [](uint8x16_t u, uint8x16_t v) { return vreinterpretq_u8_u32(vzip1q_u32(words(u), words(v))); };
    const auto high = [](uint8x16_t u, uint8x16_t v) { return vreinterpretq_u8_u32(vzip2q_u32(words(u), words(v))); };
    store_bytes(p, {low(first.a, second.a), high(first.a, second.a), low(first.b, second.b), high(first.b, second.b)});
    store_bytes(p + 64,
                {low(first.c, second.c), high(first.c, second.c), low(first.d, second.d), high(first.d, second.d)});
  }
  static Eights load_eights(const std::uint8_t* p) {
    const Bytes low = load_bytes(p), high = load_bytes(p + 64);
    return {{low.a, low.b, low.c, low.d, high.a, high.b, high.c, high.d}};
  }
  static int8x16_t eight_inputs(const std::int8_t* p, const std::int8_t* q) {
    const uint32x2_t first = vreinterpret_u32_s8(vld1_s8(p)), second = vreinterpret_u32_s8(vld1_s8(q));
    return vreinterpretq_s8_u32(vcombine_u32(vzip1_u32(first, second), vzip2_u32(first, second)));
  }
  static PairSums dot_pair(const PairSums& s, const Eights& w, int8x16_t x) {
    const auto dot = [&](std::size_t i) { return vusmmlaq_s32(s.rows[i], w.rows[i], x); };
    return {{dot(0), dot(1), dot(2), dot(3), dot(4), dot(5), dot(6), dot(7)}};
  }
};

}  // namespace
}  // namespace nibble::quant
