#include "quant/kernels/simd/vector_neon.h"
#include "quant/kernels/windows/window_shift_simd.h"

namespace nibble::quant {
namespace {

struct WindowVector4x128 : Vector4x128 {
  static Bytes cut(Bytes words_here, Bytes next, unsigned shift, int mask) {
    const int16x8_t down = vdupq_n_s16(static_cast<std::int16_t>(-static_cast<int>(shift))),
                    up = vdupq_n_s16(static_cast<std::int16_t>(16 - static_cast<int>(shift)));  // 16 leaves nothing
    const uint16x8_t kept = vdupq_n_u16(static_cast<std::uint16_t>(mask));
    return each<Bytes>(
        [&](uint8x16_t a, uint8x16_t b) {
          const uint16x8_t both =
              vorrq_u16(vshlq_u16(vreinterpretq_u16_u8(a), down), vshlq_u16(vreinterpretq_u16_u8(b), up));
          return vreinterpretq_u8_u16(vandq_u16(both, kept));
        },
        words_here, next);
  }
};

}  // namespace

const WindowKernels kWindowNeon =
    window_matvec::kernels<WindowVector4x128, window_matvec::ShiftDecoder<WindowVector4x128>, 4>();

}  // namespace nibble::quant
