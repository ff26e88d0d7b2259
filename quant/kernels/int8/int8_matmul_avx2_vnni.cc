#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_tile_avx2.h"
#include "quant/kernels/simd/int8_vector_avx2_vnni.h"

namespace nibble::quant {

const Int8MatmulTable kInt8MatmulAvx2Vnni = int8_matmul::table<Int8Tile2x256<Int8VectorVnni2x256>>();

}  // namespace nibble::quant
