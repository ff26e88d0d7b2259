#include "quant/kernels/int8/int8_matvec.h"

#include "core/machine/isa.h"

namespace nibble::quant {

const Int8MatvecTable& active_int8_matvec() {
  static const Int8MatvecTable& table =
      *choose_variant<const Int8MatvecTable>({.scalar = &kInt8MatvecScalar,
                                              .avx2 = NIBBLE_AVX2_VARIANT(&kInt8MatvecAvx2),
                                              .avx2_vnni = NIBBLE_AVX2_VNNI_VARIANT(&kInt8MatvecAvx2Vnni),
                                              .avx512 = NIBBLE_AVX512_VARIANT(&kInt8MatvecAvx512),
                                              .avx512_vnni = NIBBLE_AVX512_VNNI_VARIANT(&kInt8MatvecAvx512Vnni),
                                              .avx512_vbmi = NIBBLE_AVX512_VBMI_VARIANT(&kInt8MatvecAvx512Vbmi),
                                              .neon = NIBBLE_NEON_VARIANT(&kInt8MatvecNeon),
                                              .neon_dotprod = NIBBLE_NEON_DOTPROD_VARIANT(&kInt8MatvecNeonDotprod),
                                              .neon_i8mm = NIBBLE_NEON_I8MM_VARIANT(&kInt8MatvecNeonI8mm)});
  return table;
}

}  // namespace nibble::quant
