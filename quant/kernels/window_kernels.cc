#include "quant/kernels/window_kernels.h"

#include "core/isa.h"

namespace nibble::quant {

bool window_vbmi() {
#if NIBBLE_HAVE_X86_AVX512_VBMI
  static const bool has = active_isa() == Isa::kAvx512 && has_avx512_vbmi2();
  return has;
#else
  return false;
#endif
}

const WindowKernels& select_window_kernels([[maybe_unused]] const WindowLayout& layout) {
#if NIBBLE_HAVE_X86_AVX512_VBMI
  if (window_vbmi() && layout.bits <= 8) return kWindowVbmi[layout.step - 1][layout.bits > 6 ? 1 : 0];
#endif
  return *choose_variant(&kWindowScalar, NIBBLE_AVX2_VARIANT(&kWindowAvx2), NIBBLE_AVX512_VARIANT(&kWindowAvx512));
}

const char* window_isa_name(const WindowLayout& layout) {
  return window_vbmi() && layout.bits <= 8 ? "avx512_vbmi" : isa_name(active_isa()).data();
}

const WindowInt8Kernels* select_window_int8_kernels(const WindowLayout& layout) {
  if (layout.bits > 8) return nullptr;
#if NIBBLE_HAVE_X86_AVX512_VBMI
  if (window_vbmi()) return &kWindowInt8Vbmi[layout.step - 1][layout.bits > 6 ? 1 : 0];
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (active_isa() >= Isa::kAvx2) return &kWindowInt8Avx2[layout.bits > 6 ? 1 : 0];  // AVX-512 has all of it
#endif
  return &kWindowInt8Scalar;
}

const char* window_int8_isa_name() {
  if (window_vbmi()) return "avx512_vbmi";
  return active_isa() >= Isa::kAvx2 ? "avx2" : "scalar";
}

}  // namespace nibble::quant
