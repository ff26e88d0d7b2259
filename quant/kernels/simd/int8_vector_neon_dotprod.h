#pragma once

#include "quant/kernels/simd/int8_vector_neon.h"

// Products of bytes by SDOT. Only *_neon_dotprod.cc include this.
namespace nibble::quant {
namespace {

struct SignedDot {
  static constexpr int kLess = 128;
  static int32x4_t dot(int32x4_t sum, uint8x16_t w, int8x16_t x) { return vdotq_s32(sum, vreinterpretq_s8_u8(w), x); }
};

}  // namespace
}  // namespace nibble::quant
