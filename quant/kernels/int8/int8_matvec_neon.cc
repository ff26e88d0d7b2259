#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_neon.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecNeon = int8_matvec::table<Int8Vector4x128<WideningDot>>("neon");

}  // namespace nibble::quant
