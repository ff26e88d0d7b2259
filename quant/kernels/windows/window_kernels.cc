#include "quant/kernels/windows/window_kernels.h"

#include "core/machine/isa.h"

namespace nibble::quant {
namespace {

bool window_vbmi(const WindowLayout& layout) {
  return layout.bits <= 8 && isa_includes(active_isa(), Isa::kAvx512Vbmi);
}

}  // namespace

const WindowKernels& select_window_kernels(const WindowLayout& layout) {
  [[maybe_unused]] const std::size_t step = layout.step - 1, many = layout.bits > 6 ? 1 : 0;
  return *choose_variant<const WindowKernels>(
      {.scalar = &kWindowScalar,
       .avx2 = NIBBLE_AVX2_VARIANT(&kWindowAvx2),
       .avx512 = NIBBLE_AVX512_VARIANT(&kWindowAvx512),
       .avx512_vbmi = layout.bits <= 8 ? NIBBLE_AVX512_VBMI_VARIANT(&kWindowAvx512Vbmi[step][many]) : nullptr,
       .neon = NIBBLE_NEON_VARIANT(&kWindowNeon)});
}

const char* window_isa_name(const WindowLayout& layout) {
  return window_vbmi(layout) ? "avx512_vbmi" : active_vectors_name().data();
}

const WindowInt8Kernels* select_window_int8_kernels(const WindowLayout& layout) {
  if (layout.bits > 8) return nullptr;
  [[maybe_unused]] const std::size_t step = layout.step - 1, many = layout.bits > 6 ? 1 : 0;
  return choose_variant<const WindowInt8Kernels>(
      {.scalar = &kWindowInt8Scalar,
       .avx2 = NIBBLE_AVX2_VARIANT(&kWindowInt8Avx2[many]),
       .avx2_vnni = NIBBLE_AVX2_VNNI_VARIANT(&kWindowInt8Avx2Vnni[many]),
       .avx512 = NIBBLE_AVX512_VARIANT(&kWindowInt8Avx512[step][many]),
       .avx512_vnni = NIBBLE_AVX512_VNNI_VARIANT(&kWindowInt8Avx512Vnni[step][many]),
       .avx512_vbmi = NIBBLE_AVX512_VBMI_VARIANT(&kWindowInt8Avx512Vbmi[step][many]),
       .neon = NIBBLE_NEON_VARIANT(&kWindowInt8Neon[many]),
       .neon_dotprod = NIBBLE_NEON_DOTPROD_VARIANT(&kWindowInt8NeonDotprod[many]),
       .neon_i8mm = NIBBLE_NEON_I8MM_VARIANT(&kWindowInt8NeonI8mm[many])});
}

}  // namespace nibble::quant
