#include "quant/kernels/exact/float_matvec_simd.h"
#include "quant/kernels/simd/vector_avx512.h"

namespace nibble::quant {

const FloatMatvecTable kFloatMatvecAvx512 = float_matvec::table<Vector512>();

}  // namespace nibble::quant
