#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_avx2.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecAvx2 = int8_matvec::table<Int8Vector2x256>("avx2");

}  // namespace nibble::quant
