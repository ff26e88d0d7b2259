#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_neon_i8mm.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecNeonI8mm = int8_matvec::table<Int8Vector4x128<MixedDot>>("neon_i8mm");

}  // namespace nibble::quant
