#pragma once

#include <immintrin.h>

#include <cstddef>

// Vectors of floats, and of doubles half as many, in AVX-512 F and DQ: floats_avx2.h says more. Only *_avx512*.cc
// include this.
namespace nibble::simd {
namespace {

struct Floats512 {
  using F = __m512;
  using D = __m512d;
  static constexpr std::size_t kWidth = 16;

  static __mmask16 first(std::size_t count) {
    return static_cast<__mmask16>(count >= kWidth ? 0xFFFFu : (1u << count) - 1u);
  }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load(const float* p, std::size_t count) { return _mm512_maskz_loadu_ps(first(count), p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static void store(float* p, std::size_t count, F x) { _mm512_mask_storeu_ps(p, first(count), x); }
  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F round(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

  static D low(F x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
  static D high(F x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
  static D set(double x) { return _mm512_set1_pd(x); }
  static D add(D a, D b) { return _mm512_add_pd(a, b); }
  static D sub(D a, D b) { return _mm512_sub_pd(a, b); }
  static D mul(D a, D b) { return _mm512_mul_pd(a, b); }
  static D fma(D a, D b, D c) { return _mm512_fmadd_pd(a, b, c); }
  static D fnma(D a, D b, D c) { return _mm512_fnmadd_pd(a, b, c); }
  static D round(D x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
};

}  // namespace
}  // namespace nibble::simd
