#include <immintrin.h>

#include "core/matrix/dtype_kernels.h"

namespace nibble::dtype_kernels {
namespace {

// The last 1 to 7 elements go through a padded copy, so that nothing past the end is read or written.
struct Tail {
  alignas(16) char half[16] = {};
  alignas(32) float single[8] = {};
};

__m256 widen_bf16(__m128i half) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)); }
__m256 widen_f16(__m128i half) { return _mm256_cvtph_ps(half); }

// Half of the last kept bit is added, less a little where that bit is even; a NaN is made quiet instead, whose carry
// could end in infinity.
__m256 round_bf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), odd));
  const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(0x400000)));
  const __m256 chosen =
      _mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_and_ps(chosen, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

template <__m256 (*Widen)(__m128i)>
void to_f32(const void* source, std::size_t count, float* destination) {
  const char* bytes = static_cast<const char*>(source);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * i));
    _mm256_storeu_ps(destination + i, Widen(half));
  }
  if (i == count) return;
  Tail tail;
  __builtin_memcpy(tail.half, bytes + 2 * i, 2 * (count - i));
  _mm256_store_ps(tail.single, Widen(_mm_load_si128(reinterpret_cast<const __m128i*>(tail.half))));
  __builtin_memcpy(destination + i, tail.single, 4 * (count - i));
}

}  // namespace

void f16_to_f32_avx2(const void* source, std::size_t count, float* destination) {
  to_f32<widen_f16>(source, count, destination);
}
void bf16_to_f32_avx2(const void* source, std::size_t count, float* destination) {
  to_f32<widen_bf16>(source, count, destination);
}

void f32_to_f16_avx2(const float* source, std::size_t count, void* destination) {
  char* bytes = static_cast<char*>(destination);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 2 * i), half);
  }
  if (i == count) return;
  Tail tail;
  __builtin_memcpy(tail.single, source + i, 4 * (count - i));
  const __m128i half = _mm256_cvtps_ph(_mm256_load_ps(tail.single), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_store_si128(reinterpret_cast<__m128i*>(tail.half), half);
  __builtin_memcpy(bytes + 2 * i, tail.half, 2 * (count - i));
}

void round_to_bf16_avx2(const float* source, std::size_t count, float* destination) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(destination + i, round_bf16(_mm256_loadu_ps(source + i)));
  if (i == count) return;
  Tail tail;
  __builtin_memcpy(tail.single, source + i, 4 * (count - i));
  _mm256_store_ps(tail.single, round_bf16(_mm256_load_ps(tail.single)));
  __builtin_memcpy(destination + i, tail.single, 4 * (count - i));
}

}  // namespace nibble::dtype_kernels
