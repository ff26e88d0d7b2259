#include "quant/algo/palette_block_kernels.h"

#include "core/isa.h"

namespace nibble::quant::palette_block_kernels {

Kernels active() {
#if NIBBLE_HAVE_X86_AVX512
  if (active_isa() >= Isa::kAvx512) return {weighted_sums_avx512, hessian_sums_avx512};
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (active_isa() >= Isa::kAvx2) return {weighted_sums_avx2, hessian_sums_avx2};
#endif
  return {weighted_sums_scalar, hessian_sums_scalar};
}

}  // namespace nibble::quant::palette_block_kernels
