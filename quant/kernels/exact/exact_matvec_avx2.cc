#include "quant/kernels/exact/exact_matvec_simd.h"
#include "quant/kernels/simd/vector_avx2.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecAvx2 = exact_matvec::table<Vector2x256>();

}  // namespace nibble::quant
