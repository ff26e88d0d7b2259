#include "quant/kernels/simd/vector_avx512.h"
#include "quant/kernels/windows/window_shift_simd.h"

namespace nibble::quant {
namespace {

struct WindowVector512 : Vector512 {
  static Bytes cut(Bytes words, Bytes next, unsigned shift, int mask) {
    const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift)),
                  up = _mm_cvtsi32_si128(16 - static_cast<int>(shift));  // 16 leaves nothing
    const __m512i both = _mm512_or_si512(_mm512_srl_epi16(words, down), _mm512_sll_epi16(next, up));
    return _mm512_and_si512(both, _mm512_set1_epi16(static_cast<short>(mask)));
  }
};

}  // namespace

const WindowKernels kWindowAvx512 =
    window_matvec::kernels<WindowVector512, window_matvec::ShiftDecoder<WindowVector512>, 16>();

}  // namespace nibble::quant
