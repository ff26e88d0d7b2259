#include <immintrin.h>

#include "quant/algo/blocks/block_search_kernels.h"

namespace nibble::quant::block_search_kernels {
namespace {

// Sixteen grids in registers. Steps are rounded by adding 1.5 · 2^23, and clamped before it is taken away again.
struct Registers {
  __m512 rounder = _mm512_set1_ps(0x1.8p23f), scale, inverse, low, high;

  explicit Registers(const Grids& grids)
      : scale(_mm512_loadu_ps(grids.scale)),
        inverse(_mm512_maskz_div_ps(_mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_NEQ_OQ), _mm512_set1_ps(1.0f),
                                    scale)),
        low(_mm512_add_ps(_mm512_loadu_ps(grids.low), rounder)),
        high(_mm512_add_ps(_mm512_loadu_ps(grids.high), rounder)) {}

  __m512 step(__m512 value) const {
    const __m512 steps = _mm512_fmadd_ps(value, inverse, rounder);
    return _mm512_sub_ps(_mm512_min_ps(_mm512_max_ps(steps, low), high), rounder);
  }
};

}  // namespace

Sums weighted_sums_avx512(const float* values, const float* weights, std::size_t count, const Grids& grids) {
  const Registers grid(grids);
  __m512 ee = _mm512_setzero_ps(), eq = ee, qq = ee;
  for (std::size_t j = 0; j < count; ++j) {
    const __m512 value = _mm512_loadu_ps(values + j * kLanes), weight = _mm512_loadu_ps(weights + j * kLanes);
    const __m512 q = grid.step(value), e = _mm512_fnmadd_ps(q, grid.scale, value);
    const __m512 weighted_e = _mm512_mul_ps(weight, e);
    ee = _mm512_fmadd_ps(weighted_e, e, ee);
    eq = _mm512_fmadd_ps(weighted_e, q, eq);
    qq = _mm512_fmadd_ps(_mm512_mul_ps(weight, q), q, qq);
  }
  Sums sums;
  _mm512_storeu_ps(sums.ee, ee);
  _mm512_storeu_ps(sums.eq, eq);
  _mm512_storeu_ps(sums.qq, qq);
  return sums;
}

Sums hessian_sums_avx512(const float* values, const float* h, std::size_t stride, std::size_t count,
                         const Grids& grids) {
  const Registers grid(grids);
  __m512 e[kMostHessianInputs], q[kMostHessianInputs];
  for (std::size_t j = 0; j < count; ++j) {
    const __m512 value = _mm512_loadu_ps(values + j * kLanes);
    q[j] = grid.step(value);
    e[j] = _mm512_fnmadd_ps(q[j], grid.scale, value);
  }
  __m512 ee = _mm512_setzero_ps(), eq = ee, qq = ee;
  for (std::size_t i = 0; i < count; ++i) {
    // Below the diagonal twice instead of on both sides: e H q and q H e are the same.
    __m512 he = _mm512_setzero_ps(), hq = he, he_odd = he, hq_odd = he;
    const float* row = h + i * stride;
    std::size_t j = 0;
    for (; j + 1 < i; j += 2) {
      const __m512 entry = _mm512_set1_ps(row[j]), next = _mm512_set1_ps(row[j + 1]);
      he = _mm512_fmadd_ps(entry, e[j], he);
      hq = _mm512_fmadd_ps(entry, q[j], hq);
      he_odd = _mm512_fmadd_ps(next, e[j + 1], he_odd);
      hq_odd = _mm512_fmadd_ps(next, q[j + 1], hq_odd);
    }
    for (; j < i; ++j) {
      he = _mm512_fmadd_ps(_mm512_set1_ps(row[j]), e[j], he);
      hq = _mm512_fmadd_ps(_mm512_set1_ps(row[j]), q[j], hq);
    }
    he = _mm512_add_ps(he, he_odd);
    hq = _mm512_add_ps(hq, hq_odd);
    const __m512 diagonal = _mm512_set1_ps(row[i]), two = _mm512_set1_ps(2.0f);
    const __m512 de = _mm512_mul_ps(diagonal, e[i]), dq = _mm512_mul_ps(diagonal, q[i]);
    ee = _mm512_fmadd_ps(e[i], _mm512_fmadd_ps(two, he, de), ee);
    qq = _mm512_fmadd_ps(q[i], _mm512_fmadd_ps(two, hq, dq), qq);
    eq = _mm512_fmadd_ps(e[i], _mm512_add_ps(hq, dq), _mm512_fmadd_ps(q[i], he, eq));
  }
  Sums sums;
  _mm512_storeu_ps(sums.ee, ee);
  _mm512_storeu_ps(sums.eq, eq);
  _mm512_storeu_ps(sums.qq, qq);
  return sums;
}

void improve_avx512(const Grids& grids, const Sums& sums, Best& best) {
  const __m512 none = _mm512_setzero_ps(), scale = _mm512_loadu_ps(grids.scale), qq = _mm512_loadu_ps(sums.qq),
               eq = _mm512_loadu_ps(sums.eq);
  const __m512 shift = _mm512_maskz_div_ps(_mm512_cmp_ps_mask(qq, none, _CMP_GT_OQ), eq, qq);
  const __mmask16 keeps_sign = _mm512_cmp_ps_mask(_mm512_mul_ps(_mm512_add_ps(scale, shift), scale), none, _CMP_GT_OQ);
  const __m512 used = _mm512_maskz_mov_ps(keeps_sign, shift);
  const __m512 error = _mm512_fnmadd_ps(used, eq, _mm512_loadu_ps(sums.ee));
  const __mmask16 better = _mm512_cmp_ps_mask(error, _mm512_loadu_ps(best.error), _CMP_LT_OQ);
  _mm512_mask_storeu_ps(best.error, better, error);
  _mm512_mask_storeu_ps(best.scale, better, _mm512_add_ps(scale, used));
  _mm512_mask_storeu_ps(best.low, better, _mm512_loadu_ps(grids.low));
}

}  // namespace nibble::quant::block_search_kernels
