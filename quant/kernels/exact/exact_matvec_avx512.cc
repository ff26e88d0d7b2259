#include "quant/kernels/exact/exact_matvec_simd.h"
#include "quant/kernels/simd/vector_avx512.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecAvx512 = exact_matvec::table<Vector512>();

}  // namespace nibble::quant
