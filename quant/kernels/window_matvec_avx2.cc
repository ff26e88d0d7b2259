#include "quant/kernels/vector_avx2.h"
#include "quant/kernels/window_gather_simd.h"

namespace nibble::quant {
namespace {

struct WindowVector2x256 : Vector2x256 {
  static Bytes cut(Bytes words, Bytes next, unsigned shift, int mask) {
    const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift)),
                  up = _mm_cvtsi32_si128(16 - static_cast<int>(shift));  // 16 leaves nothing
    const __m256i kept = _mm256_set1_epi16(static_cast<short>(mask));
    const auto half = [&](__m256i a, __m256i b) {
      return _mm256_and_si256(_mm256_or_si256(_mm256_srl_epi16(a, down), _mm256_sll_epi16(b, up)), kept);
    };
    return {half(words.low, next.low), half(words.high, next.high)};
  }
  static Bytes low_words(Bytes v) {
    const __m256i zero = _mm256_setzero_si256();
    return {_mm256_unpacklo_epi16(v.low, zero), _mm256_unpacklo_epi16(v.high, zero)};
  }
  static Bytes high_words(Bytes v) {
    const __m256i zero = _mm256_setzero_si256();
    return {_mm256_unpackhi_epi16(v.low, zero), _mm256_unpackhi_epi16(v.high, zero)};
  }
  static F gather(const float* table, Bytes v) {
    return {_mm256_i32gather_ps(table, v.low, 4), _mm256_i32gather_ps(table, v.high, 4)};
  }
  static void transpose_half(__m256& r0, __m256& r1, __m256& r2, __m256& r3) {
    const __m256 a = _mm256_unpacklo_ps(r0, r1), b = _mm256_unpackhi_ps(r0, r1), c = _mm256_unpacklo_ps(r2, r3),
                 d = _mm256_unpackhi_ps(r2, r3);
    r0 = _mm256_shuffle_ps(a, c, 0x44);
    r1 = _mm256_shuffle_ps(a, c, 0xEE);
    r2 = _mm256_shuffle_ps(b, d, 0x44);
    r3 = _mm256_shuffle_ps(b, d, 0xEE);
  }
  static void transpose_fours(F (&rows)[4]) {
    transpose_half(rows[0].low, rows[1].low, rows[2].low, rows[3].low);
    transpose_half(rows[0].high, rows[1].high, rows[2].high, rows[3].high);
  }
};

}  // namespace

const WindowKernels kWindowAvx2 =
    window_matvec::kernels<WindowVector2x256, window_matvec::GatherDecoder<WindowVector2x256>, 4>();

}  // namespace nibble::quant
