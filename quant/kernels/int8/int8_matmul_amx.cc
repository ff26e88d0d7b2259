#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_tile_amx.h"

namespace nibble::quant {

const Int8MatmulTable kInt8MatmulAmx = int8_matmul::table<Int8TileAmx>("amx");

}  // namespace nibble::quant
