#include "quant/kernels/exact/float_matvec.h"

#include "core/machine/isa.h"

namespace nibble::quant {
namespace {

const FloatMatvecTable& float_matvec_table() {
  static const FloatMatvecTable& table =
      *choose_variant(&kFloatMatvecScalar, NIBBLE_AVX2_VARIANT(&kFloatMatvecAvx2),
                      NIBBLE_AVX512_VARIANT(&kFloatMatvecAvx512), NIBBLE_NEON_VARIANT(&kFloatMatvecNeon));
  return table;
}

}  // namespace

FloatMatvec select_float_matvec(FloatType type, std::size_t tokens) {
  return float_matvec_table().by_type[static_cast<std::size_t>(type)][tokens == 1 ? 0 : 1];
}

}  // namespace nibble::quant
