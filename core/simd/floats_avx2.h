#pragma once

#include <immintrin.h>

#include <cstddef>

// Vectors of floats, and of doubles half as many, in AVX2 and FMA: what the kernels of several folders need alike. Each
// adds its own by deriving. Only *_avx2*.cc include this; names are local, so none leaks into code for other
// processors.
namespace nibble::simd {
namespace {

struct Floats256 {
  using F = __m256;
  using D = __m256d;
  static constexpr std::size_t kWidth = 8;

  /// All ones in the first min(count, kWidth) lanes.
  static __m256i first(std::size_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count >= kWidth ? 8 : static_cast<int>(count)), lanes);
  }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  /// The first min(count, kWidth) values, then zeros.
  static F load(const float* p, std::size_t count) {
    return count >= kWidth ? load(p) : _mm256_maskload_ps(p, first(count));
  }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static void store(float* p, std::size_t count, F x) {
    if (count >= kWidth) {
      store(p, x);
    } else {
      _mm256_maskstore_ps(p, first(count), x);
    }
  }
  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }    ///< a b + c
  static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  ///< c - a b
  static F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

  static D low(F x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
  static D high(F x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
  static D set(double x) { return _mm256_set1_pd(x); }
  static D add(D a, D b) { return _mm256_add_pd(a, b); }
  static D sub(D a, D b) { return _mm256_sub_pd(a, b); }
  static D mul(D a, D b) { return _mm256_mul_pd(a, b); }
  static D fma(D a, D b, D c) { return _mm256_fmadd_pd(a, b, c); }
  static D fnma(D a, D b, D c) { return _mm256_fnmadd_pd(a, b, c); }
  static D round(D x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
};

}  // namespace
}  // namespace nibble::simd
