#include "quant/kernels/exact_matvec_simd.h"
#include "quant/kernels/vector_avx512.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecAvx512 = exact_matvec::table<Vector512>();

}  // namespace nibble::quant
