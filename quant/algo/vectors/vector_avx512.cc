#include <immintrin.h>

#include "quant/algo/vectors/vector_kernels.h"

namespace nibble::quant::vector_kernels {
namespace {

constexpr std::size_t kLanes = 16;

__mmask16 tail_mask(std::size_t remaining) {
  return static_cast<__mmask16>(remaining >= kLanes ? 0xFFFFu : (1u << remaining) - 1u);
}

// Blocks · 16 vectors at a time, so that an entry once broadcast serves all of them.
template <std::size_t Dim, std::size_t Blocks>
void nearest(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
             std::size_t entries, std::uint8_t* codes, float* least) {
  for (std::size_t begin = 0; begin < count; begin += Blocks * kLanes) {
    __mmask16 mask[Blocks];
    __m512 s[Blocks][Dim], r[Blocks][Dim], smallest[Blocks];
    __m512i code[Blocks];
    for (std::size_t b = 0; b < Blocks; ++b) {
      const std::size_t at = begin + b * kLanes;
      mask[b] = at < count ? tail_mask(count - at) : __mmask16{0};
      for (std::size_t d = 0; d < Dim; ++d) {
        s[b][d] = _mm512_maskz_loadu_ps(mask[b], scaled + d * stride + at);
        r[b][d] = _mm512_maskz_loadu_ps(mask[b], root + d * stride + at);
      }
      smallest[b] = _mm512_set1_ps(__builtin_inff());
      code[b] = _mm512_setzero_si512();
    }
    for (std::size_t k = 0; k < entries; ++k) {
      const __m512i index = _mm512_set1_epi32(static_cast<int>(k));
      for (std::size_t b = 0; b < Blocks; ++b) {
        __m512 distance = _mm512_setzero_ps();
        for (std::size_t d = 0; d < Dim; ++d) {
          const __m512 difference = _mm512_fnmadd_ps(r[b][d], _mm512_set1_ps(palette[k * Dim + d]), s[b][d]);
          distance = _mm512_fmadd_ps(difference, difference, distance);
        }
        const __mmask16 nearer = _mm512_cmp_ps_mask(distance, smallest[b], _CMP_LT_OQ);
        smallest[b] = _mm512_mask_mov_ps(smallest[b], nearer, distance);
        code[b] = _mm512_mask_mov_epi32(code[b], nearer, index);
      }
    }
    for (std::size_t b = 0; b < Blocks; ++b) {
      if (mask[b] == 0) break;
      _mm512_mask_storeu_ps(least + begin + b * kLanes, mask[b], smallest[b]);
      _mm512_mask_cvtepi32_storeu_epi8(codes + begin + b * kLanes, mask[b], code[b]);
    }
  }
}

}  // namespace

void nearest_avx512(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                    std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least) {
  if (dim == 2) return nearest<2, 3>(scaled, root, stride, count, palette, entries, codes, least);
  nearest<4, 2>(scaled, root, stride, count, palette, entries, codes, least);
}

}  // namespace nibble::quant::vector_kernels
