#include "quant/kernels/exact/float_matvec_simd.h"
#include "quant/kernels/simd/vector_scalar.h"

namespace nibble::quant {

const FloatMatvecTable kFloatMatvecScalar = float_matvec::table<VectorScalar>();

}  // namespace nibble::quant
