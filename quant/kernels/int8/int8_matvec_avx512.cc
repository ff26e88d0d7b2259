#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_avx512.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecAvx512 = int8_matvec::table<Int8Vector512>("avx512");

}  // namespace nibble::quant
