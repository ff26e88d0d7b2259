#include "quant/kernels/int8/int8_matvec_simd.h"
#include "quant/kernels/simd/int8_vector_scalar.h"

namespace nibble::quant {

const Int8MatvecTable kInt8MatvecScalar = int8_matvec::table<Int8VectorScalar>("scalar");

}  // namespace nibble::quant
