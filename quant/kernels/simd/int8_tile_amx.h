#pragma once

#include "quant/kernels/simd/amx_tiles.h"
#include "quant/kernels/simd/int8_tile_avx512.h"
#include "quant/kernels/simd/int8_vector_avx512_vbmi.h"

// The vector type of int8_matmul_simd.h with AMX for products of whole tiles. Only *_amx.cc include this.
namespace nibble::quant {
namespace {

struct Int8TileAmx : Int8Tile512<Int8VectorVbmi512> {
  static constexpr int kTilePanels = 4, kTileTokens = 16;

  // Of fours of inputs of 16 rows, (fours, 16, 4), a number for each row.
  static void subtract(std::uint8_t* bytes, std::size_t fours, const std::uint8_t* of_rows) {
    const __m512i numbers = _mm512_mullo_epi32(small_integers(of_rows), _mm512_set1_epi32(0x01010101));
    for (std::size_t i = 0; i < fours; ++i, bytes += 64)
      _mm512_store_si512(bytes, _mm512_sub_epi8(_mm512_load_si512(bytes), numbers));
  }

  static Sums load_sums(const std::int32_t* p) { return _mm512_load_si512(p); }

  template <std::size_t kBlock>
  class Tiles {
   public:
    // `count` blocks of 16 tokens times 16 rows: (blocks, 16, kBlock) and (blocks, kBlock / 4, 16, 4) give
    // (blocks, 16, 16); weights are signed or not. Two at a time, in registers of their own.
    template <bool kSigned>
    void multiply(const std::int8_t* x, const std::uint8_t* weights, std::size_t count, std::int32_t* sums) const {
      flush_stores(weights);
      for (std::size_t block = 0; block < count; block += 2) {
        const bool two = block + 1 < count;
        _tile_zero(0);
        _tile_loadd(4, x, kBlock);
        _tile_loadd(6, weights, 64);
        if constexpr (kSigned)
          _tile_dpbssd(0, 4, 6);
        else
          _tile_dpbsud(0, 4, 6);
        if (two) {
          _tile_zero(1);
          _tile_loadd(5, x + kOperand, kBlock);
          _tile_loadd(7, weights + kOperand, 64);
          if constexpr (kSigned)
            _tile_dpbssd(1, 5, 7);
          else
            _tile_dpbsud(1, 5, 7);
        }
        _tile_stored(0, sums, 64);
        if (two) _tile_stored(1, sums + 256, 64);
        x += 2 * kOperand;
        weights += 2 * kOperand;
        sums += std::size_t{2} * 256;
      }
    }

   private:
    static constexpr std::size_t kOperand = 16 * kBlock;
    AmxTiles<kBlock> set_up_;
  };
};

}  // namespace
}  // namespace nibble::quant
