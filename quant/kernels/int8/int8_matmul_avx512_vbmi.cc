#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_tile_avx512.h"
#include "quant/kernels/simd/int8_vector_avx512_vbmi.h"

namespace nibble::quant {

const Int8MatmulTable kInt8MatmulAvx512Vbmi = int8_matmul::table<Int8Tile512<Int8VectorVbmi512>>();

}  // namespace nibble::quant
