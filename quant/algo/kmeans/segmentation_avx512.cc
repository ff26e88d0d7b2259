#include <immintrin.h>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant::segmentation_kernels {
namespace {

// a / b of normal numbers (or a = 0), rounded as the division does wherever tried (not proved: the reciprocal may be
// off by one in its last place): the division alone would take two thirds of the loop's time. The reciprocal is good to
// 14 bits, then to 28 and 53; the remainder, exact in a fused product, corrects the quotient.
__m512d divided(__m512d a, __m512d b) {
  const __m512d one = _mm512_set1_pd(1.0);
  __m512d reciprocal = _mm512_rcp14_pd(b);
  reciprocal = _mm512_fmadd_pd(_mm512_fnmadd_pd(b, reciprocal, one), reciprocal, reciprocal);
  reciprocal = _mm512_fmadd_pd(_mm512_fnmadd_pd(b, reciprocal, one), reciprocal, reciprocal);
  const __m512d quotient = _mm512_mul_pd(a, reciprocal);
  return _mm512_fmadd_pd(_mm512_fnmadd_pd(b, quotient, a), reciprocal, quotient);
}

}  // namespace

void best_cuts_avx512(const Prefixes& sums, double least_weight, double price, std::size_t first, std::size_t last,
                      std::size_t row, double* best, std::int32_t* cut) {
  const __m512d weight_high = _mm512_loadu_pd(sums.weight_high + row);
  const __m512d weight_low = _mm512_loadu_pd(sums.weight_low + row);
  const __m512d moment_high = _mm512_loadu_pd(sums.moment_high + row);
  const __m512d moment_low = _mm512_loadu_pd(sums.moment_low + row);
  const __m512d least = _mm512_set1_pd(least_weight);
  __m512d most = _mm512_set1_pd(-__builtin_inf());
  __m512i most_cut = _mm512_set1_epi64(static_cast<long long>(first));
  for (std::size_t i = first; i <= last; ++i) {
    const __m512d w = _mm512_add_pd(_mm512_sub_pd(weight_high, _mm512_set1_pd(sums.weight_high[i])),
                                    _mm512_sub_pd(weight_low, _mm512_set1_pd(sums.weight_low[i])));
    const __m512d s = _mm512_add_pd(_mm512_sub_pd(moment_high, _mm512_set1_pd(sums.moment_high[i])),
                                    _mm512_sub_pd(moment_low, _mm512_set1_pd(sums.moment_low[i])));
    const __m512d candidate =
        _mm512_add_pd(_mm512_set1_pd(best[i]), divided(_mm512_mul_pd(s, s), _mm512_max_pd(w, least)));
    const __mmask8 better = _mm512_cmp_pd_mask(candidate, most, _CMP_GT_OQ);
    most = _mm512_max_pd(most, candidate);
    most_cut = _mm512_mask_set1_epi64(most_cut, better, static_cast<long long>(i));
  }
  _mm512_storeu_pd(best + row, _mm512_sub_pd(most, _mm512_set1_pd(price)));
  _mm512_mask_cvtepi64_storeu_epi32(cut + row, 0xFF, most_cut);
}

}  // namespace nibble::quant::segmentation_kernels
