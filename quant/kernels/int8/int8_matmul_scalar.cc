#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_vector_scalar.h"

namespace nibble::quant {
namespace {

struct Int8TileScalar : Int8VectorScalar {
  static constexpr int kTilePanels = 1, kTileTokens = 4;

  static void store_bytes(std::uint8_t* p, Bytes v) {
    for (std::size_t i = 0; i < kLanes; ++i)
      for (std::size_t b = 0; b < 4; ++b) p[4 * i + b] = static_cast<std::uint8_t>(v[i] >> 8 * b);
  }
  static void transpose(Bytes (&rows)[16]) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const std::uint32_t lane = rows[i][j];
        rows[i][j] = rows[j][i];
        rows[j][i] = lane;
      }
    }
  }
};

}  // namespace

const Int8MatmulTable kInt8MatmulScalar = int8_matmul::table<Int8TileScalar>();

}  // namespace nibble::quant
