#include "quant/kernels/simd/vector_avx2.h"
#include "quant/kernels/windows/window_shift_simd.h"

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
};

}  // namespace

const WindowKernels kWindowAvx2 =
    window_matvec::kernels<WindowVector2x256, window_matvec::ShiftDecoder<WindowVector2x256>, 4>();

}  // namespace nibble::quant
