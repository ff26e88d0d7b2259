#include <immintrin.h>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant::segmentation_kernels {
namespace {

// Four rows. Cuts are carried as doubles: exact, and the same lanes as the gains.
void best_cuts_of_four(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                       std::size_t row, double* best, std::int32_t* cut) {
  const __m256d weight_high = _mm256_loadu_pd(sums.weight_high + row);
  const __m256d weight_low = _mm256_loadu_pd(sums.weight_low + row);
  const __m256d moment_high = _mm256_loadu_pd(sums.moment_high + row);
  const __m256d moment_low = _mm256_loadu_pd(sums.moment_low + row);
  const __m256d least = _mm256_set1_pd(least_weight);
  __m256d most = _mm256_set1_pd(-__builtin_inf()), most_cut = _mm256_set1_pd(static_cast<double>(first));
  for (std::size_t i = first; i <= last; ++i) {
    const __m256d w = _mm256_add_pd(_mm256_sub_pd(weight_high, _mm256_set1_pd(sums.weight_high[i])),
                                    _mm256_sub_pd(weight_low, _mm256_set1_pd(sums.weight_low[i])));
    const __m256d s = _mm256_add_pd(_mm256_sub_pd(moment_high, _mm256_set1_pd(sums.moment_high[i])),
                                    _mm256_sub_pd(moment_low, _mm256_set1_pd(sums.moment_low[i])));
    const __m256d candidate =
        _mm256_add_pd(_mm256_set1_pd(best[i]), _mm256_div_pd(_mm256_mul_pd(s, s), _mm256_max_pd(w, least)));
    const __m256d better = _mm256_cmp_pd(candidate, most, _CMP_GT_OQ);
    most = _mm256_max_pd(most, candidate);
    most_cut = _mm256_blendv_pd(most_cut, _mm256_set1_pd(static_cast<double>(i)), better);
  }
  _mm256_storeu_pd(best + row, _mm256_sub_pd(most, _mm256_set1_pd(price)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(cut + row), _mm256_cvtpd_epi32(most_cut));
}

}  // namespace

void best_cuts_avx2(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                    std::size_t row, double* best, std::int32_t* cut) {
  for (std::size_t half = 0; half < kRows; half += 4)
    best_cuts_of_four(sums, least_weight, price, first, last, row + half, best, cut);
}

}  // namespace nibble::quant::segmentation_kernels
