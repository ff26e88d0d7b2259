#pragma once

#include "quant/kernels/simd/int8_vector_avx512.h"
#include "quant/kernels/simd/transpose_avx512.h"

// Vector types of int8_vector_avx512*.h as int8_matmul_simd.h wants them. Only *_avx512*.cc and *_amx.cc include this.
namespace nibble::quant {
namespace {

template <class V>
struct Int8Tile512 : V {
  // 24 sums, 2 weights and 1 input of 32 registers; where products are made of pieces, these need some.
  static constexpr int kTilePanels = 2, kTileTokens = 6;

  static void transpose(__m512i (&rows)[16]) { transpose_lanes(rows); }
};

}  // namespace
}  // namespace nibble::quant
