#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

// A variant of a kernel that only builds for some processors have: null elsewhere. See nibble_isa_sources() in
// cmake/isa.cmake.
#if NIBBLE_HAVE_X86_AVX2
#define NIBBLE_AVX2_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX2_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_X86_AVX2_VNNI
#define NIBBLE_AVX2_VNNI_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX2_VNNI_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_X86_AVX512
#define NIBBLE_AVX512_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX512_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_X86_AVX512_VNNI
#define NIBBLE_AVX512_VNNI_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX512_VNNI_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_X86_AVX512_VBMI
#define NIBBLE_AVX512_VBMI_VARIANT(variant) (variant)
#else
#define NIBBLE_AVX512_VBMI_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_X86_AMX
#define NIBBLE_AMX_VARIANT(variant) (variant)
#else
#define NIBBLE_AMX_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_ARM_NEON
#define NIBBLE_NEON_VARIANT(variant) (variant)
#else
#define NIBBLE_NEON_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_ARM_NEON_DOTPROD
#define NIBBLE_NEON_DOTPROD_VARIANT(variant) (variant)
#else
#define NIBBLE_NEON_DOTPROD_VARIANT(variant) nullptr
#endif
#if NIBBLE_HAVE_ARM_NEON_I8MM
#define NIBBLE_NEON_I8MM_VARIANT(variant) (variant)
#else
#define NIBBLE_NEON_I8MM_VARIANT(variant) nullptr
#endif

namespace nibble {

/// Tiers of instructions that kernels are written for, worst first of each family of processors. Each asks for
///
///     scalar        nothing but the compiler's baseline
///     avx2          AVX2, FMA, F16C                           Haswell on, Zen on
///     avx2-vnni     those and AVX-VNNI                        Alder Lake on
///     avx512-base   those of avx2 and AVX-512 F, BW, VL, DQ   Skylake-X
///     avx512-vnni   those and AVX-512 VNNI                    Cascade Lake, Cooper Lake
///     avx512-vbmi   those and AVX-512 VBMI, VBMI2             Ice Lake on, Zen 4 on
///     amx           those, AVX-512 BF16, AMX                  Sapphire Rapids on
///     neon          Advanced SIMD                             every 64-bit Arm
///     neon-dotprod  those and SDOT                            Cortex-A76 on, Neoverse N1 on, Apple A13 on
///     neon-i8mm     those and USDOT, USMMLA                   Cortex-A710 on, Neoverse V1 on, Apple M2 on
///
/// Only files of a tier hold its instructions (cmake/isa.cmake); core/machine/isa.cc is the only place that asks the
/// processor.
enum class Isa { kScalar, kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAvx512Vbmi, kAmx, kNeon, kNeonDotprod, kNeonI8mm };

std::span<const Isa> all_isas();  ///< as above

std::string_view isa_name(Isa isa);  ///< as above

/// Whether what is written for `part` runs where `isa` does: all that comes before a tier of the same family of
/// processors, but avx2-vnni, which is beside AVX-512.
bool isa_includes(Isa isa, Isa part);

/// Whether this processor, system and build have it, regardless of NIBBLE_FORCE_ISA.
bool supports_isa(Isa isa);
Isa best_supported_isa();

/// The tier in force: the best that is supported and whose registers the system lets this process use (AMX's, it is
/// asked for), or what NIBBLE_FORCE_ISA asks for, a tier's name, or avx512, the best tier of AVX-512 here. Evaluated
/// once; it binds the GEMM library as well. Throws InvalidArgument for an unknown name or a tier that this processor
/// lacks, and says what of it.
Isa active_isa();

/// What the tier in force does products of bytes and lookups with, as `nibble version` says it.
std::string active_isa_uses();

/// "scalar", "avx2", "avx512" or "neon": what kernels run as that finer tiers change nothing for.
std::string_view active_vectors_name();

/// Whether AVX-512 BF16 is in force. Of the tiers only amx asks for it, but those with AVX-512 VNNI use it where it is.
bool has_avx512_bf16();

/// Whether the matrix library multiplies bfloat16 numbers faster than floats by AVX-512 BF16: AMD's processors do.
/// Those of Intel's start a vdpbf16ps every other cycle, which is the pace of float32.
bool has_fast_bf16();

/// Variants of a kernel, or of a table of kernels, by tier; null where there is none.
template <class Variant>
struct Variants {
  Variant* scalar;
  Variant* avx2 = nullptr;
  Variant* avx2_vnni = nullptr;
  Variant* avx512 = nullptr;
  Variant* avx512_vnni = nullptr;
  Variant* avx512_vbmi = nullptr;
  Variant* amx = nullptr;
  Variant* neon = nullptr;
  Variant* neon_dotprod = nullptr;
  Variant* neon_i8mm = nullptr;
};

/// The best of them that active_isa() includes. As in
///   static const Table& table = *choose_variant<const Table>({.scalar = &kScalar,
///                                                             .avx2 = NIBBLE_AVX2_VARIANT(&kAvx2),
///                                                             .avx512_vnni = NIBBLE_AVX512_VNNI_VARIANT(&kVnni)});
template <class Variant>
Variant* choose_variant(const Variants<Variant>& variants) {
  const Isa isa = active_isa();
  Variant* best = variants.scalar;
  const auto consider = [&](Variant* variant, Isa of) {
    if (variant != nullptr && isa_includes(isa, of)) best = variant;
  };
  consider(variants.avx2, Isa::kAvx2);
  consider(variants.avx2_vnni, Isa::kAvx2Vnni);
  consider(variants.avx512, Isa::kAvx512);
  consider(variants.avx512_vnni, Isa::kAvx512Vnni);
  consider(variants.avx512_vbmi, Isa::kAvx512Vbmi);
  consider(variants.amx, Isa::kAmx);
  consider(variants.neon, Isa::kNeon);
  consider(variants.neon_dotprod, Isa::kNeonDotprod);
  consider(variants.neon_i8mm, Isa::kNeonI8mm);
  return best;
}

/// The same of a kernel that has these only.
template <class Variant>
Variant* choose_variant(Variant* scalar, std::type_identity_t<Variant>* avx2, std::type_identity_t<Variant>* avx512,
                        std::type_identity_t<Variant>* neon = nullptr) {
  return choose_variant<Variant>(Variants<Variant>{.scalar = scalar, .avx2 = avx2, .avx512 = avx512, .neon = neon});
}

}  // namespace nibble
