#include "quant/kernels/exact/float_matvec_simd.h"
#include "quant/kernels/simd/vector_neon.h"

namespace nibble::quant {

const FloatMatvecTable kFloatMatvecNeon = float_matvec::table<Vector4x128>();

}  // namespace nibble::quant
