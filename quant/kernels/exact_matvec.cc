#include "quant/kernels/exact_matvec.h"

#include "core/isa.h"
#include "quant/kernels/code_layout.h"

namespace nibble::quant {
namespace {

const ExactMatvecTable& exact_matvec_table() {
  switch (active_isa()) {
#if NIBBLE_HAVE_X86_AVX512
    case Isa::kAvx512:
      return kExactMatvecAvx512;
#endif
#if NIBBLE_HAVE_X86_AVX2
    case Isa::kAvx2:
      return kExactMatvecAvx2;
#endif
    default:
      return kExactMatvecScalar;
  }
}

}  // namespace

ExactMatvec select_exact_matvec(unsigned bits, PackedKind kind, std::size_t tokens) {
  return exact_matvec_table().by_width[width_index(bits)][static_cast<std::size_t>(kind)][tokens == 1 ? 0 : 1];
}

}  // namespace nibble::quant
