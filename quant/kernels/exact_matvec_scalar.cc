#include "quant/kernels/exact_matvec_simd.h"
#include "quant/kernels/vector_scalar.h"

namespace nibble::quant {

const ExactMatvecTable kExactMatvecScalar = exact_matvec::table<VectorScalar>();

}  // namespace nibble::quant
