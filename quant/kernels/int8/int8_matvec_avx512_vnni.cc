#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_avx512_vnni.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecAvx512Vnni = int8_matvec::table<Int8VectorVnni512>("avx512_vnni");

}  // namespace nibble::quant
