#pragma once

#include "quant/kernels/simd/int8_vector_avx512_vnni.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h with AVX-512 VBMI. Only *_avx512_vbmi.cc and
// *_amx.cc include this.
namespace nibble::quant {
namespace {

struct Int8VectorVbmi512 : Int8VectorVnni512 {
  // vpermb looks at the low 6 bits of a byte only, and the table repeats to fill them: no masking.
  template <int kBits>
  struct Entries {
    using Product = AnyBytes;
    __m512i table;
    explicit Entries(const std::uint8_t* entries) {
      if constexpr (kBits <= 4)
        table = sixteen(entries);
      else
        table = _mm512_loadu_si512(entries);
    }
    Bytes bytes(Bytes field) const { return _mm512_permutexvar_epi8(field, table); }
  };
};

}  // namespace
}  // namespace nibble::quant
