#include "quant/algo/blocks/palette_block_kernels.h"

#include "core/machine/isa.h"

namespace nibble::quant::palette_block_kernels {

Kernels active() {
  return {choose_variant(weighted_sums_scalar, NIBBLE_AVX2_VARIANT(weighted_sums_avx2),
                         NIBBLE_AVX512_VARIANT(weighted_sums_avx512)),
          choose_variant(hessian_sums_scalar, NIBBLE_AVX2_VARIANT(hessian_sums_avx2),
                         NIBBLE_AVX512_VARIANT(hessian_sums_avx512))};
}

}  // namespace nibble::quant::palette_block_kernels
