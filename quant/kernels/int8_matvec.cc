#include "quant/kernels/int8_matvec.h"

#include "core/isa.h"

namespace nibble::quant {

const Int8MatvecTable* active_int8_matvec() {
#if NIBBLE_HAVE_X86_AVX512_VNNI
  if (active_isa() == Isa::kAvx512 && has_avx512_vnni()) return &kInt8MatvecAvx512Vnni;
#endif
  return nullptr;
}

}  // namespace nibble::quant
