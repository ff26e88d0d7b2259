#include "quant/kernels/vector_avx512.h"
#include "quant/kernels/window_gather_simd.h"

namespace nibble::quant {
namespace {

struct WindowVector512 : Vector512 {
  static Bytes cut(Bytes words, Bytes next, unsigned shift, int mask) {
    const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift)),
                  up = _mm_cvtsi32_si128(16 - static_cast<int>(shift));  // 16 leaves nothing
    const __m512i both = _mm512_or_si512(_mm512_srl_epi16(words, down), _mm512_sll_epi16(next, up));
    return _mm512_and_si512(both, _mm512_set1_epi16(static_cast<short>(mask)));
  }
  static Bytes low_words(Bytes v) { return _mm512_unpacklo_epi16(v, _mm512_setzero_si512()); }
  static Bytes high_words(Bytes v) { return _mm512_unpackhi_epi16(v, _mm512_setzero_si512()); }
  static F gather(const float* table, Bytes v) { return _mm512_i32gather_ps(v, table, 4); }
  static void transpose_fours(F (&rows)[4]) {
    const F a = _mm512_unpacklo_ps(rows[0], rows[1]), b = _mm512_unpackhi_ps(rows[0], rows[1]),
            c = _mm512_unpacklo_ps(rows[2], rows[3]), d = _mm512_unpackhi_ps(rows[2], rows[3]);
    rows[0] = _mm512_shuffle_ps(a, c, 0x44);
    rows[1] = _mm512_shuffle_ps(a, c, 0xEE);
    rows[2] = _mm512_shuffle_ps(b, d, 0x44);
    rows[3] = _mm512_shuffle_ps(b, d, 0xEE);
  }
};

}  // namespace

const WindowKernels kWindowAvx512 =
    window_matvec::kernels<WindowVector512, window_matvec::GatherDecoder<WindowVector512>, 16>();

}  // namespace nibble::quant
