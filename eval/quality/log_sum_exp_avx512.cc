#include <immintrin.h>

#include "core/simd/floats_avx512.h"
#include "eval/quality/log_sum_exp_kernels.h"
#include "eval/quality/log_sum_exp_simd.h"

namespace nibble::eval::kernels {
namespace {

struct Avx512 : simd::Floats512 {
  static constexpr double kLowest = -1000.0;

  static F load(const float* values, std::size_t left) {
    const __mmask16 mask = left >= 16 ? __mmask16{0xFFFF} : static_cast<__mmask16>((1u << left) - 1u);
    return _mm512_mask_loadu_ps(_mm512_set1_ps(-__builtin_inff()), mask, values);
  }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static float largest(F a) { return _mm512_reduce_max_ps(a); }

  static D at_least(D x, D lowest) { return _mm512_max_pd(lowest, x); }  // of a NaN the second operand comes through
  static D scale(D p, D n, D) { return _mm512_scalef_pd(p, n); }         // 2^n underflows to 0 at kLowest
  static D weighted(D weight, D x, D sum) {
    return _mm512_mask3_fmadd_pd(weight, x, sum, _mm512_cmp_pd_mask(weight, set(0.0), _CMP_NEQ_UQ));
  }
  static double total(D a) { return _mm512_reduce_add_pd(a); }
};

}  // namespace

void max_and_sum_exp_avx512(const float* values, std::size_t count, float* max, double* sum) {
  max_and_sum_exp<Avx512>(values, count, max, sum);
}

void softmax_sums_avx512(const float* p, const float* q, std::size_t count, SoftmaxSums* sums) {
  softmax_sums<Avx512>(p, q, count, sums);
}

}  // namespace nibble::eval::kernels
