#pragma once

#include "quant/kernels/simd/int8_vector_neon.h"

// Products of unsigned and signed bytes by USDOT. Only *_neon_i8mm.cc include this.
namespace nibble::quant {
namespace {

struct MixedDot {
  static constexpr int kLess = 0;
  static int32x4_t dot(int32x4_t sum, uint8x16_t w, int8x16_t x) { return vusdotq_s32(sum, w, x); }
};

}  // namespace
}  // namespace nibble::quant
