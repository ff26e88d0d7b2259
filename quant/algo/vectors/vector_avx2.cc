#include <immintrin.h>

#include "quant/algo/vectors/vector_kernels.h"

namespace nibble::quant::vector_kernels {
namespace {

constexpr std::size_t kLanes = 8;

// Whole registers of vectors; returns how many vectors that was.
template <std::size_t Dim>
std::size_t nearest(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                    std::size_t entries, std::uint8_t* codes, float* least) {
  std::size_t begin = 0;
  for (; begin + kLanes <= count; begin += kLanes) {
    __m256 s[Dim], r[Dim], smallest = _mm256_set1_ps(__builtin_inff());
    __m256i code = _mm256_setzero_si256();
    for (std::size_t d = 0; d < Dim; ++d) {
      s[d] = _mm256_loadu_ps(scaled + d * stride + begin);
      r[d] = _mm256_loadu_ps(root + d * stride + begin);
    }
    for (std::size_t k = 0; k < entries; ++k) {
      __m256 distance = _mm256_setzero_ps();
      for (std::size_t d = 0; d < Dim; ++d) {
        const __m256 difference = _mm256_fnmadd_ps(r[d], _mm256_set1_ps(palette[k * Dim + d]), s[d]);
        distance = _mm256_fmadd_ps(difference, difference, distance);
      }
      const __m256 nearer = _mm256_cmp_ps(distance, smallest, _CMP_LT_OQ);
      smallest = _mm256_blendv_ps(smallest, distance, nearer);
      code = _mm256_blendv_epi8(code, _mm256_set1_epi32(static_cast<int>(k)), _mm256_castps_si256(nearer));
    }
    _mm256_storeu_ps(least + begin, smallest);
    alignas(32) int indices[kLanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(indices), code);
    for (std::size_t lane = 0; lane < kLanes; ++lane) codes[begin + lane] = static_cast<std::uint8_t>(indices[lane]);
  }
  return begin;
}

}  // namespace

void nearest_avx2(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                  std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least) {
  const std::size_t done = dim == 2 ? nearest<2>(scaled, root, stride, count, palette, entries, codes, least)
                                    : nearest<4>(scaled, root, stride, count, palette, entries, codes, least);
  nearest_scalar(scaled + done, root + done, stride, count - done, palette, entries, dim, codes + done, least + done);
}

}  // namespace nibble::quant::vector_kernels
