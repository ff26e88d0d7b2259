#pragma once

#include <string_view>
#include <type_traits>

// A variant of a kernel that only builds for some processors have: null elsewhere. See nibble_isa_sources() in
// cmake/isa.cmake.
#if NIBBLE_HAVE_X86_AVX2
#define NIBBLE_AVX2_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX2_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_X86_AVX512
#define NIBBLE_AVX512_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX512_VARIANT(variant) nullptr
#endif

namespace nibble {

/// Instruction sets that kernels are written for, narrowest first.
/// avx2 means AVX2 + FMA + F16C; avx512 means AVX-512 F, BW, VL and DQ on top.
enum class Isa { kScalar, kAvx2, kAvx512 };

std::string_view isa_name(Isa isa);  ///< "scalar", "avx2", "avx512"

/// The widest set this processor and build support, regardless of NIBBLE_FORCE_ISA.
Isa best_supported_isa();

/// The set in force: best_supported_isa(), or what NIBBLE_FORCE_ISA=scalar|avx2|avx512 asks for. Evaluated once; it
/// binds the GEMM library as well. Throws InvalidArgument for an unknown name or a set that this processor lacks.
Isa active_isa();

/// Whether this processor has AVX-512 VNNI and VBMI as well (of kAvx512 not all have).
bool has_avx512_vnni();

/// Whether it has AVX-512 VBMI2 besides those: all but the oldest of them.
bool has_avx512_vbmi2();

/// Whether this processor has AVX-512 BF16 as well.
bool has_avx512_bf16();

/// The widest variant of a kernel, or of a table of kernels, that active_isa() allows and the build has (null: it has
/// none). As in
///   static const Table& table = *choose_variant(&kScalar, NIBBLE_AVX2_VARIANT(&kAvx2),
///   NIBBLE_AVX512_VARIANT(&kAvx512))
template <class Variant>
Variant* choose_variant(Variant* scalar, std::type_identity_t<Variant>* avx2, std::type_identity_t<Variant>* avx512) {
  if (avx512 != nullptr && active_isa() >= Isa::kAvx512) return avx512;
  if (avx2 != nullptr && active_isa() >= Isa::kAvx2) return avx2;
  return scalar;
}

}  // namespace nibble
