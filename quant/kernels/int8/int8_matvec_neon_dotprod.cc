#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_neon_dotprod.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecNeonDotprod = int8_matvec::table<Int8Vector4x128<SignedDot>>("neon_dotprod");

}  // namespace nibble::quant
