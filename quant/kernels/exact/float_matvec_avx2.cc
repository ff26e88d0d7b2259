#include "quant/kernels/exact/float_matvec_simd.h"
#include "quant/kernels/simd/vector_avx2.h"

namespace nibble::quant {

const FloatMatvecTable kFloatMatvecAvx2 = float_matvec::table<Vector2x256>();

}  // namespace nibble::quant
