#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_avx2_vnni.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecAvx2Vnni = int8_matvec::table<Int8VectorVnni2x256>("avx2_vnni");

}  // namespace nibble::quant
