#include "quant/kernels/int8_matmul_simd.h"
#include "quant/kernels/int8_vector_avx2.h"

namespace nibble::quant {
namespace {

struct Int8Tile2x256 : Int8Vector2x256 {
  static constexpr int kTilePanels = 1, kTileTokens = 4;  // 8 sums, 2 weights, 1 input, 1s of 16 registers

  // Codes of up to 4 bits: sums of a block are at most 16 · 15 · 127 in each half of a lane, so that these 16 bits
  // hold.
  template <class Product, bool kInHalves>
  struct BlockProduct {
    using Sums = Int8Vector2x256::Sums;
    static Sums begin(Sums start) { return kInHalves ? set_sums(0) : start; }
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      if constexpr (!kInHalves) return Product::dot(sums, w, x);
      return {_mm256_add_epi16(sums.low, _mm256_maddubs_epi16(w.low, x.low)),
              _mm256_add_epi16(sums.high, _mm256_maddubs_epi16(w.high, x.high))};
    }
    static Sums end(Sums sums, Sums start) {
      if constexpr (!kInHalves) return sums;
      return {add_pairs(start.low, sums.low), add_pairs(start.high, sums.high)};
    }
  };

  static void store_bytes(std::uint8_t* p, Bytes v) {
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
  static void transpose(Bytes (&rows)[16]) {
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

const Int8MatmulTable kInt8MatmulAvx2 = int8_matmul::table<Int8Tile2x256>();

}  // namespace nibble::quant
