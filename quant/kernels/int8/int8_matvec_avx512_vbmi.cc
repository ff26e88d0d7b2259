#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_avx512_vbmi.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecAvx512Vbmi = int8_matvec::table<Int8VectorVbmi512>("avx512_vbmi");

}  // namespace nibble::quant
