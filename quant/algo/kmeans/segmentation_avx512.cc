#include <immintrin.h>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant::segmentation_kernels {

void best_cuts_avx512(const Prefixes& sums, const double* previous, double least_weight, std::size_t row,
                      std::size_t first, std::size_t last, double* gain, std::int32_t* cut) {
  const __m512d weight_high = _mm512_loadu_pd(sums.weight_high + row);
  const __m512d weight_low = _mm512_loadu_pd(sums.weight_low + row);
  const __m512d moment_high = _mm512_loadu_pd(sums.moment_high + row);
  const __m512d moment_low = _mm512_loadu_pd(sums.moment_low + row);
  const __m512d least = _mm512_set1_pd(least_weight);
  __m512d best = _mm512_set1_pd(-__builtin_inf());
  __m512i best_cut = _mm512_set1_epi64(static_cast<long long>(first));
  const auto gain_at = [&](std::size_t i) {
    const __m512d w = _mm512_add_pd(_mm512_sub_pd(weight_high, _mm512_set1_pd(sums.weight_high[i])),
                                    _mm512_sub_pd(weight_low, _mm512_set1_pd(sums.weight_low[i])));
    const __m512d s = _mm512_add_pd(_mm512_sub_pd(moment_high, _mm512_set1_pd(sums.moment_high[i])),
                                    _mm512_sub_pd(moment_low, _mm512_set1_pd(sums.moment_low[i])));
    return _mm512_add_pd(_mm512_set1_pd(previous[i]), _mm512_div_pd(_mm512_mul_pd(s, s), _mm512_max_pd(w, least)));
  };
  std::size_t i = first;
  for (; i <= last && i <= row; ++i) {
    const __m512d candidate = gain_at(i);
    const __mmask8 better = _mm512_cmp_pd_mask(candidate, best, _CMP_GT_OQ);
    best = _mm512_max_pd(best, candidate);
    best_cut = _mm512_mask_set1_epi64(best_cut, better, static_cast<long long>(i));
  }
  for (; i <= last && i < row + kRows; ++i) {  // only the rows from i on may use cut i
    const auto allowed = static_cast<__mmask8>(0xFFu << (i - row));
    const __m512d candidate = gain_at(i);
    const __mmask8 better = _mm512_mask_cmp_pd_mask(allowed, candidate, best, _CMP_GT_OQ);
    best = _mm512_mask_mov_pd(best, better, candidate);
    best_cut = _mm512_mask_set1_epi64(best_cut, better, static_cast<long long>(i));
  }
  _mm512_storeu_pd(gain, best);
  _mm512_mask_cvtepi64_storeu_epi32(cut, 0xFF, best_cut);
}

}  // namespace nibble::quant::segmentation_kernels
