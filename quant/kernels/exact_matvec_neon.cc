#include "quant/kernels/exact_matvec_simd.h"
#include "quant/kernels/vector_neon.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecNeon = exact_matvec::table<Vector4x128>();

}  // namespace nibble::quant
