#include <immintrin.h>

#include "core/matrix/dtype_kernels.h"

namespace nibble::dtype_kernels {
namespace {

__mmask16 tail_mask(std::size_t remaining) {
  return static_cast<__mmask16>(remaining >= 16 ? 0xFFFFu : (1u << remaining) - 1u);
}
const char* at(const void* base, std::size_t index) { return static_cast<const char*>(base) + 2 * index; }

// Bits whose upper halves are the values rounded to BF16. Half of the last kept bit is added, less a little where that
// bit is even; a NaN is made quiet instead, whose carry could end in infinity.
__m512i rounded_above(__m512 value) {
  const __m512i half = _mm512_set1_epi32(0x7FFF), one = _mm512_set1_epi32(1), quiet = _mm512_set1_epi32(0x400000);
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(half, odd));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, bits, quiet);
}

}  // namespace

void f16_to_f32_avx512(const void* source, std::size_t count, float* destination) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m256i half = _mm256_maskz_loadu_epi16(mask, at(source, i));
    _mm512_mask_storeu_ps(destination + i, mask, _mm512_cvtph_ps(half));
  }
}

void bf16_to_f32_avx512(const void* source, std::size_t count, float* destination) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at(source, i)));
    _mm512_mask_storeu_ps(destination + i, mask, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
  }
}

void f32_to_f16_avx512(const float* source, std::size_t count, void* destination) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m512 value = _mm512_maskz_loadu_ps(mask, source + i);
    const __m256i half = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(static_cast<char*>(destination) + 2 * i, mask, half);
  }
}

void round_to_bf16_avx512(const float* source, std::size_t count, float* destination) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m512i rounded = _mm512_and_si512(rounded_above(_mm512_maskz_loadu_ps(mask, source + i)), high);
    _mm512_mask_storeu_ps(destination + i, mask, _mm512_castsi512_ps(rounded));
  }
}

void f32_to_bf16_avx512(const float* source, std::size_t count, void* destination) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = tail_mask(count - i);
    const __m512i rounded = _mm512_srli_epi32(rounded_above(_mm512_maskz_loadu_ps(mask, source + i)), 16);
    _mm256_mask_storeu_epi16(static_cast<char*>(destination) + 2 * i, mask, _mm512_cvtepi32_epi16(rounded));
  }
}

}  // namespace nibble::dtype_kernels
