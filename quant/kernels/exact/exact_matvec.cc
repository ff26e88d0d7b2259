#include "quant/kernels/exact/exact_matvec.h"

#include "core/machine/isa.h"
#include "quant/kernels/packing/code_layout.h"

namespace nibble::quant {
namespace {

const ExactMatvecTable& exact_matvec_table() {
  static const ExactMatvecTable& table =
      *choose_variant(&kExactMatvecScalar, NIBBLE_AVX2_VARIANT(&kExactMatvecAvx2),
                      NIBBLE_AVX512_VARIANT(&kExactMatvecAvx512), NIBBLE_NEON_VARIANT(&kExactMatvecNeon));
  return table;
}

}  // namespace

ExactMatvec select_exact_matvec(unsigned bits, PackedKind kind, std::size_t tokens) {
  return exact_matvec_table().by_width[width_index(bits)][static_cast<std::size_t>(kind)][tokens == 1 ? 0 : 1];
}

}  // namespace nibble::quant
