#include "quant/kernels/int8/int8_matmul_simd.h"
#include "quant/kernels/simd/int8_tile_neon.h"
#include "quant/kernels/simd/int8_vector_neon_dotprod.h"

namespace nibble::quant {

const Int8MatmulTable kInt8MatmulNeonDotprod = int8_matmul::table<Int8Tile4x128<Int8Vector4x128<SignedDot>, 6>>();

}  // namespace nibble::quant
