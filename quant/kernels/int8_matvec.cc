#include "quant/kernels/int8_matvec.h"

#include "core/isa.h"

namespace nibble::quant {

const Int8MatvecTable& active_int8_matvec() {
  const Isa isa = active_isa();
#if NIBBLE_HAVE_X86_AVX512_VNNI
  if (isa == Isa::kAvx512 && has_avx512_vnni()) return kInt8MatvecAvx512Vnni;
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (isa >= Isa::kAvx2) return kInt8MatvecAvx2;  // AVX-512 without VNNI has all of it
#endif
  static_cast<void>(isa);
  return kInt8MatvecScalar;
}

}  // namespace nibble::quant
