#include "quant/kernels/exact/exact_matvec_simd.h"
#include "quant/kernels/simd/vector_scalar.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecScalar = exact_matvec::table<VectorScalar>();

}  // namespace nibble::quant
