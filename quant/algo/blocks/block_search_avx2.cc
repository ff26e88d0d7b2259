#include <immintrin.h>

#include "quant/algo/blocks/block_search_kernels.h"

namespace nibble::quant::block_search_kernels {
namespace {

constexpr std::size_t kHalf = 8;  // lanes of a register: blocks are handled in two halves

// Eight grids in registers. Steps are rounded by adding 1.5 · 2^23, and clamped before it is taken away again.
struct Registers {
  __m256 rounder = _mm256_set1_ps(0x1.8p23f), scale, inverse, low, high;

  Registers(const Grids& grids, std::size_t first)
      : scale(_mm256_loadu_ps(grids.scale + first)),
        inverse(_mm256_and_ps(_mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_NEQ_OQ),
                              _mm256_div_ps(_mm256_set1_ps(1.0f), scale))),
        low(_mm256_add_ps(_mm256_loadu_ps(grids.low + first), rounder)),
        high(_mm256_add_ps(_mm256_loadu_ps(grids.high + first), rounder)) {}

  __m256 step(__m256 value) const {
    const __m256 steps = _mm256_fmadd_ps(value, inverse, rounder);
    return _mm256_sub_ps(_mm256_min_ps(_mm256_max_ps(steps, low), high), rounder);
  }
};

}  // namespace

Sums weighted_sums_avx2(const float* values, const float* weights, std::size_t count, const Grids& grids) {
  Sums sums;
  for (std::size_t first = 0; first < kLanes; first += kHalf) {
    const Registers grid(grids, first);
    __m256 ee = _mm256_setzero_ps(), eq = ee, qq = ee;
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t at = j * kLanes + first;
      const __m256 value = _mm256_loadu_ps(values + at), weight = _mm256_loadu_ps(weights + at);
      const __m256 q = grid.step(value), e = _mm256_fnmadd_ps(q, grid.scale, value);
      const __m256 weighted_e = _mm256_mul_ps(weight, e);
      ee = _mm256_fmadd_ps(weighted_e, e, ee);
      eq = _mm256_fmadd_ps(weighted_e, q, eq);
      qq = _mm256_fmadd_ps(_mm256_mul_ps(weight, q), q, qq);
    }
    _mm256_storeu_ps(sums.ee + first, ee);
    _mm256_storeu_ps(sums.eq + first, eq);
    _mm256_storeu_ps(sums.qq + first, qq);
  }
  return sums;
}

Sums hessian_sums_avx2(const float* values, const float* h, std::size_t stride, std::size_t count, const Grids& grids) {
  Sums sums;
  for (std::size_t first = 0; first < kLanes; first += kHalf) {
    const Registers grid(grids, first);
    __m256 e[kMostHessianInputs], q[kMostHessianInputs];
    for (std::size_t j = 0; j < count; ++j) {
      const __m256 value = _mm256_loadu_ps(values + j * kLanes + first);
      q[j] = grid.step(value);
      e[j] = _mm256_fnmadd_ps(q[j], grid.scale, value);
    }
    __m256 ee = _mm256_setzero_ps(), eq = ee, qq = ee;
    for (std::size_t i = 0; i < count; ++i) {
      // Below the diagonal twice instead of on both sides: e H q and q H e are the same.
      __m256 he = _mm256_setzero_ps(), hq = he;
      const float* row = h + i * stride;
      for (std::size_t j = 0; j < i; ++j) {
        const __m256 entry = _mm256_set1_ps(row[j]);
        he = _mm256_fmadd_ps(entry, e[j], he);
        hq = _mm256_fmadd_ps(entry, q[j], hq);
      }
      const __m256 diagonal = _mm256_set1_ps(row[i]), two = _mm256_set1_ps(2.0f);
      const __m256 de = _mm256_mul_ps(diagonal, e[i]), dq = _mm256_mul_ps(diagonal, q[i]);
      ee = _mm256_fmadd_ps(e[i], _mm256_fmadd_ps(two, he, de), ee);
      qq = _mm256_fmadd_ps(q[i], _mm256_fmadd_ps(two, hq, dq), qq);
      eq = _mm256_fmadd_ps(e[i], _mm256_add_ps(hq, dq), _mm256_fmadd_ps(q[i], he, eq));
    }
    _mm256_storeu_ps(sums.ee + first, ee);
    _mm256_storeu_ps(sums.eq + first, eq);
    _mm256_storeu_ps(sums.qq + first, qq);
  }
  return sums;
}

void improve_avx2(const Grids& grids, const Sums& sums, Best& best) {
  const __m256 none = _mm256_setzero_ps();
  for (std::size_t first = 0; first < kLanes; first += kHalf) {
    const __m256 scale = _mm256_loadu_ps(grids.scale + first), qq = _mm256_loadu_ps(sums.qq + first),
                 eq = _mm256_loadu_ps(sums.eq + first);
    const __m256 shift = _mm256_and_ps(_mm256_cmp_ps(qq, none, _CMP_GT_OQ), _mm256_div_ps(eq, qq));
    const __m256 turned = _mm256_mul_ps(_mm256_add_ps(scale, shift), scale);
    const __m256 used = _mm256_and_ps(_mm256_cmp_ps(turned, none, _CMP_GT_OQ), shift);
    const __m256 error = _mm256_fnmadd_ps(used, eq, _mm256_loadu_ps(sums.ee + first));
    const __m256i better = _mm256_castps_si256(_mm256_cmp_ps(error, _mm256_loadu_ps(best.error + first), _CMP_LT_OQ));
    _mm256_maskstore_ps(best.error + first, better, error);
    _mm256_maskstore_ps(best.scale + first, better, _mm256_add_ps(scale, used));
    _mm256_maskstore_ps(best.low + first, better, _mm256_loadu_ps(grids.low + first));
  }
}

}  // namespace nibble::quant::block_search_kernels
