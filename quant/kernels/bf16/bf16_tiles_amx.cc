#include <immintrin.h>

#include "quant/kernels/bf16/bf16_tiles.h"
#include "quant/kernels/simd/amx_tiles.h"
#include "quant/kernels/simd/transpose_avx512.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a register's row, of all three kinds

// Four registers of sums for two tiles of tokens times two of rows: each operand that is loaded serves twice.
void multiply(const Bf16TileArgs& args) {
  const AmxTiles<> tiles;
  const std::size_t length = args.steps * kBf16TileBits;
  flush_stores(args.w);
  for (std::size_t row_tile = 0; row_tile < args.row_tiles; row_tile += 2) {
    for (std::size_t token_tile = 0; token_tile < args.token_tiles; token_tile += 2) {
      float* sums = args.sums + (row_tile * args.token_tiles + token_tile) * kBf16TileSums;
      float* sums_of_next = sums + args.token_tiles * kBf16TileSums;  // rows
      if (args.first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      } else {
        _tile_loadd(0, sums, kLine);
        _tile_loadd(1, sums_of_next, kLine);
        _tile_loadd(2, sums + kBf16TileSums, kLine);
        _tile_loadd(3, sums_of_next + kBf16TileSums, kLine);
      }
      const std::uint16_t* x = args.x + token_tile * length;
      const std::uint16_t* w = args.w + row_tile * length;
      for (std::size_t step = 0; step < args.steps; ++step, x += kBf16TileBits, w += kBf16TileBits) {
        _tile_loadd(4, x, kLine);
        _tile_loadd(6, w, kLine);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + length, kLine);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, x + length, kLine);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, sums, kLine);
      _tile_stored(1, sums_of_next, kLine);
      _tile_stored(2, sums + kBf16TileSums, kLine);
      _tile_stored(3, sums_of_next + kBf16TileSums, kLine);
    }
  }
}

__m512i rounded(const float* inputs) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(inputs + 16), _mm512_loadu_ps(inputs)));
}

void arrange_token(const float* x, std::size_t steps, std::uint16_t* destination) {
  for (std::size_t step = 0; step < steps; ++step)
    _mm512_storeu_si512(destination + step * kBf16TileBits, rounded(x + step * kBf16TileInputs));
}

// `first` and `second` rounded: pairs of one of each.
__m512i rounded_pairs(__m512 first, __m512 second) {
  const __m512i halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));  // all of first before second
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(turns, halves);
}

// Pairs of inputs are lanes: those of 16 rows are turned.
void arrange_rows(const float* rows, std::size_t stride, std::size_t steps, std::uint16_t* destination) {
  for (std::size_t step = 0; step < steps; ++step, rows += kBf16TileInputs, destination += kBf16TileBits) {
    __m512i lanes[kBf16Tile];
    for (std::size_t row = 0; row < kBf16Tile; ++row) lanes[row] = rounded(rows + row * stride);
    transpose_lanes(lanes);
    for (std::size_t pair = 0; pair < kBf16Tile; ++pair)
      _mm512_storeu_si512(destination + pair * kBf16TileInputs, lanes[pair]);
  }
}

void arrange_columns(const float* columns, std::size_t steps, std::uint16_t* destination) {
  for (std::size_t pair = 0; pair < steps * kBf16Tile; ++pair, columns += 2 * kBf16Tile, destination += kBf16TileInputs)
    _mm512_storeu_si512(destination, rounded_pairs(_mm512_loadu_ps(columns), _mm512_loadu_ps(columns + kBf16Tile)));
}

}  // namespace

const Bf16TileKernels kBf16TilesAmx = {multiply, arrange_token, arrange_rows, arrange_columns, "amx"};

}  // namespace nibble::quant
