#include <immintrin.h>

#include "quant/tensor/error_kernels.h"

namespace nibble::quant::error_kernels {

void add_squares_avx512(const float* w, const float* approximations, std::size_t count, Lanes& lanes) {
  constexpr std::size_t kHalf = kLanes / 2;
  __m512d error[2], norm[2];
  for (std::size_t h = 0; h < 2; ++h) {
    error[h] = _mm512_load_pd(lanes.error + h * kHalf);
    norm[h] = _mm512_load_pd(lanes.norm + h * kHalf);
  }
  for (std::size_t j = 0; j < count; j += kLanes) {
    for (std::size_t h = 0; h < 2; ++h) {
      const __m512d value = _mm512_cvtps_pd(_mm256_loadu_ps(w + j + h * kHalf));
      const __m512d difference = _mm512_sub_pd(value, _mm512_cvtps_pd(_mm256_loadu_ps(approximations + j + h * kHalf)));
      error[h] = _mm512_add_pd(error[h], _mm512_mul_pd(difference, difference));
      norm[h] = _mm512_add_pd(norm[h], _mm512_mul_pd(value, value));
    }
  }
  for (std::size_t h = 0; h < 2; ++h) {
    _mm512_store_pd(lanes.error + h * kHalf, error[h]);
    _mm512_store_pd(lanes.norm + h * kHalf, norm[h]);
  }
}

}  // namespace nibble::quant::error_kernels
