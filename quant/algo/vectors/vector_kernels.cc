#include "quant/algo/vectors/vector_kernels.h"

#include <cmath>
#include <limits>

#include "core/machine/isa.h"

namespace nibble::quant::vector_kernels {

void nearest_scalar(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                    std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least) {
  for (std::size_t v = 0; v < count; ++v) {
    least[v] = std::numeric_limits<float>::infinity();
    codes[v] = 0;
    for (std::size_t k = 0; k < entries; ++k) {
      float distance = 0.0f;
      for (std::size_t d = 0; d < dim; ++d) {
        const float difference = std::fma(-root[d * stride + v], palette[k * dim + d], scaled[d * stride + v]);
        distance = std::fma(difference, difference, distance);
      }
      if (!(distance < least[v])) continue;
      least[v] = distance;
      codes[v] = static_cast<std::uint8_t>(k);
    }
  }
}

decltype(&nearest_scalar) nearest() {
  return choose_variant(nearest_scalar, NIBBLE_AVX2_VARIANT(nearest_avx2), NIBBLE_AVX512_VARIANT(nearest_avx512),
                        NIBBLE_NEON_VARIANT(nearest_neon));
}

}  // namespace nibble::quant::vector_kernels
