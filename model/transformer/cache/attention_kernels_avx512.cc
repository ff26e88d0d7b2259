#include <immintrin.h>

#include "core/simd/floats_avx512.h"
#include "model/transformer/cache/attention_kernels_simd.h"

namespace nibble::model::attention_kernels {
namespace {

struct Vector512 : simd::Floats512 {
  static constexpr std::size_t kRows = 4;

  using Floats512::load;
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
};

}  // namespace

const Table kAvx512 = kTable<Vector512>;

}  // namespace nibble::model::attention_kernels
