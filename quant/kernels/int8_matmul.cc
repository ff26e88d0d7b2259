#include "quant/kernels/int8_matmul.h"

#include "core/isa.h"

namespace nibble::quant {
const Int8MatmulTable& active_int8_matmul() {
  const Int8MatvecTable* matvec = &active_int8_matvec();
#if NIBBLE_HAVE_X86_AVX512_VNNI
  if (matvec == &kInt8MatvecAvx512Vnni) return kInt8MatmulAvx512Vnni;
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (matvec == &kInt8MatvecAvx2) return kInt8MatmulAvx2;
#endif
  static_cast<void>(matvec);
  return kInt8MatmulScalar;
}

}  // namespace nibble::quant
