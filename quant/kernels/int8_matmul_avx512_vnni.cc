#include "quant/kernels/int8_matmul_simd.h"
#include "quant/kernels/int8_vector_avx512_vnni.h"

namespace nibble::quant {
namespace {

struct Int8Tile512 : Int8Vector512 {
  static constexpr int kTilePanels = 2, kTileTokens = 6;  // 24 sums, 2 weights, 1 input of 32 registers

  template <class Product, bool>
  struct BlockProduct {
    using Sums = Int8Vector512::Sums;
    static Sums begin(Sums start) { return start; }
    static Sums dot(Sums sums, Bytes w, Inputs x) { return Product::dot(sums, w, x); }
    static Sums end(Sums sums, Sums) { return sums; }
  };

  static void store_bytes(std::uint8_t* p, Bytes v) { _mm512_storeu_si512(p, v); }

  static void transpose(Bytes (&rows)[16]) {
    Bytes pairs[16], fours[16];
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
      const Bytes even_low = _mm512_shuffle_i32x4(fours[c], fours[4 + c], 0x88),
                  even_high = _mm512_shuffle_i32x4(fours[8 + c], fours[12 + c], 0x88),
                  odd_low = _mm512_shuffle_i32x4(fours[c], fours[4 + c], 0xDD),
                  odd_high = _mm512_shuffle_i32x4(fours[8 + c], fours[12 + c], 0xDD);
      rows[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
      rows[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
      rows[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xDD);
      rows[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD);
    }
  }
};

}  // namespace

const Int8MatmulTable kInt8MatmulAvx512Vnni = int8_matmul::table<Int8Tile512>();

}  // namespace nibble::quant
