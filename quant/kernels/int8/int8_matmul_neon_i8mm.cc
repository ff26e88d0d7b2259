#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_tile_neon_i8mm.h"

namespace nibble::quant {

const Int8MatmulTable kInt8MatmulNeonI8mm = int8_matmul::table<Int8MatrixTile>();

}  // namespace nibble::quant
