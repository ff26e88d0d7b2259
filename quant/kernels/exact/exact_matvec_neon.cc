#include "quant/kernels/exact/exact_matvec_simd.h"
#include "quant/kernels/simd/vector_neon.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecNeon = exact_matvec::table<Vector4x128>();

}  // namespace nibble::quant
