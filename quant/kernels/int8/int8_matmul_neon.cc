#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_tile_neon.h"
#include "quant/kernels/simd/int8_vector_neon.h"

namespace nibble::quant {

const Int8MatmulTable kInt8MatmulNeon = int8_matmul::table<Int8Tile4x128<Int8Vector4x128<WideningDot>, 4>>();

}  // namespace nibble::quant
