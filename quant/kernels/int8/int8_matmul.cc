#include "quant/kernels/int8/int8_matmul.h"

#include "core/machine/isa.h"

namespace nibble::quant {

const Int8MatmulTable& active_int8_matmul() {
  static const Int8MatmulTable& table =
      *choose_variant<const Int8MatmulTable>({.scalar = &kInt8MatmulScalar,
                                              .avx2 = NIBBLE_AVX2_VARIANT(&kInt8MatmulAvx2),
                                              .avx2_vnni = NIBBLE_AVX2_VNNI_VARIANT(&kInt8MatmulAvx2Vnni),
                                              .avx512 = NIBBLE_AVX512_VARIANT(&kInt8MatmulAvx512),
                                              .avx512_vnni = NIBBLE_AVX512_VNNI_VARIANT(&kInt8MatmulAvx512Vnni),
                                              .avx512_vbmi = NIBBLE_AVX512_VBMI_VARIANT(&kInt8MatmulAvx512Vbmi),
                                              .amx = NIBBLE_AMX_VARIANT(&kInt8MatmulAmx),
                                              .neon = NIBBLE_NEON_VARIANT(&kInt8MatmulNeon),
                                              .neon_dotprod = NIBBLE_NEON_DOTPROD_VARIANT(&kInt8MatmulNeonDotprod),
                                              .neon_i8mm = NIBBLE_NEON_I8MM_VARIANT(&kInt8MatmulNeonI8mm)});
  return table;
}

}  // namespace nibble::quant
