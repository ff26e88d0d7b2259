#pragma once

#include <string_view>

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

}  // namespace nibble
