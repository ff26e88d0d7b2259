#include "core/isa.h"

#include <cstdlib>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/error.h"

namespace nibble {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

#if defined(__x86_64__)
// Clang 16's __builtin_cpu_supports() does not know the name.
static bool has_f16c() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

Isa best_supported_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx2 && avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

bool has_avx512_vnni() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return best_supported_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vbmi");
#else
  return false;
#endif
}

bool has_avx512_vbmi2() {
#if defined(__x86_64__)
  return has_avx512_vnni() && __builtin_cpu_supports("avx512vbmi2");
#else
  return false;
#endif
}

bool has_avx512_bf16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return best_supported_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

namespace {

Isa choose_isa() {
  const char* forced = std::getenv("NIBBLE_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return best_supported_isa();
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_name(isa) != forced) continue;
    NIBBLE_REQUIRE(isa <= best_supported_isa(), InvalidArgument,
                   "NIBBLE_FORCE_ISA: this processor supports no more than '{}', got '{}'",
                   isa_name(best_supported_isa()), forced);
    return isa;
  }
  throw InvalidArgument(fmt::format("NIBBLE_FORCE_ISA: expected scalar, avx2 or avx512, got '{}'", forced));
}

}  // namespace

Isa active_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

}  // namespace nibble
