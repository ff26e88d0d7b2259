#include <immintrin.h>

#include "core/simd/floats_avx2.h"
#include "model/transformer/cache/attention_kernels_simd.h"

namespace nibble::model::attention_kernels {
namespace {

struct Vector256 : simd::Floats256 {
  static constexpr std::size_t kRows = 2;

  using Floats256::load;
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
};

}  // namespace

const Table kAvx2 = kTable<Vector256>;

}  // namespace nibble::model::attention_kernels
