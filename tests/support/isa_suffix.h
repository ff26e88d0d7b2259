#pragma once

#include <string>

#include "core/machine/isa.h"

namespace nibble::test {

/// What ends the names of a tier's int8 kernels: "avx512_vnni" of avx512-vnni, "avx512" of avx512-base.
inline std::string isa_suffix(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx2Vnni:
      return "avx2_vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
    case Isa::kAvx512Vbmi:
      return "avx512_vbmi";
    case Isa::kAmx:
      return "avx512_vbmi+amx";
    case Isa::kNeon:
      return "neon";
    case Isa::kNeonDotprod:
      return "neon_dotprod";
    case Isa::kNeonI8mm:
      return "neon_i8mm";
  }
  return "?";
}

}  // namespace nibble::test
