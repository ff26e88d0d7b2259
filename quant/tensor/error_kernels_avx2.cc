#include <immintrin.h>

#include "quant/tensor/error_kernels.h"

namespace nibble::quant::error_kernels {

void add_squares_avx2(const float* w, const float* approximations, std::size_t count, Lanes& lanes) {
  constexpr std::size_t kQuarter = kLanes / 4;
  __m256d error[4], norm[4];
  for (std::size_t q = 0; q < 4; ++q) {
    error[q] = _mm256_load_pd(lanes.error + q * kQuarter);
    norm[q] = _mm256_load_pd(lanes.norm + q * kQuarter);
  }
  for (std::size_t j = 0; j < count; j += kLanes) {
    for (std::size_t q = 0; q < 4; ++q) {
      const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(w + j + q * kQuarter));
      const __m256d difference = _mm256_sub_pd(value, _mm256_cvtps_pd(_mm_loadu_ps(approximations + j + q * kQuarter)));
      error[q] = _mm256_add_pd(error[q], _mm256_mul_pd(difference, difference));
      norm[q] = _mm256_add_pd(norm[q], _mm256_mul_pd(value, value));
    }
  }
  for (std::size_t q = 0; q < 4; ++q) {
    _mm256_store_pd(lanes.error + q * kQuarter, error[q]);
    _mm256_store_pd(lanes.norm + q * kQuarter, norm[q]);
  }
}

}  // namespace nibble::quant::error_kernels
