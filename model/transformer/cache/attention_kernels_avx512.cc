#include <immintrin.h>

#include "model/transformer/cache/attention_kernels_simd.h"

namespace nibble::model::attention_kernels {
namespace {

__mmask16 first(std::size_t count) { return static_cast<__mmask16>((1u << count) - 1u); }

struct Vector512 {
  using F = __m512;
  static constexpr std::size_t kWidth = 16, kRows = 4;

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load(const float* p, std::size_t count) { return _mm512_maskz_loadu_ps(first(count), p); }
  static F load(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load(const std::uint16_t* p, std::size_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(count), p));
  }
  static F load(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static F load(const std::int8_t* p, std::size_t count) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(count), p)));
  }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static void store(float* p, std::size_t count, F x) { _mm512_mask_storeu_ps(p, first(count), x); }
  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace

const Table kAvx512 = kTable<Vector512>;

}  // namespace nibble::model::attention_kernels
