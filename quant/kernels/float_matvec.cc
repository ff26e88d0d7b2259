#include "quant/kernels/float_matvec.h"

#include "core/isa.h"

namespace nibble::quant {
namespace {

const FloatMatvecTable& float_matvec_table() {
  switch (active_isa()) {
#if NIBBLE_HAVE_X86_AVX512
    case Isa::kAvx512:
      return kFloatMatvecAvx512;
#endif
#if NIBBLE_HAVE_X86_AVX2
    case Isa::kAvx2:
      return kFloatMatvecAvx2;
#endif
    default:
      return kFloatMatvecScalar;
  }
}

}  // namespace

FloatMatvec select_float_matvec(FloatType type, std::size_t tokens) {
  return float_matvec_table().by_type[static_cast<std::size_t>(type)][tokens == 1 ? 0 : 1];
}

}  // namespace nibble::quant
