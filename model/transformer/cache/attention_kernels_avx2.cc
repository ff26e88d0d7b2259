#include <immintrin.h>

#include "model/transformer/cache/attention_kernels_simd.h"

namespace nibble::model::attention_kernels {
namespace {

// All ones in the first `count` of 8 lanes.
__m256i first(std::size_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
}

struct Vector256 {
  using F = __m256;
  static constexpr std::size_t kWidth = 8, kRows = 2;

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load(const float* p, std::size_t count) { return _mm256_maskload_ps(p, first(count)); }
  static F load(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  template <class Narrow>  // there is no masked load of narrow values
  static F load(const Narrow* p, std::size_t count) {
    Narrow padded[kWidth] = {};
    for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
    return load(padded);
  }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static void store(float* p, std::size_t count, F x) { _mm256_maskstore_ps(p, first(count), x); }
  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
};

}  // namespace

const Table kAvx2 = kTable<Vector256>;

}  // namespace nibble::model::attention_kernels
