#include <arm_neon.h>

#include "core/simd/floats_neon.h"
#include "model/transformer/cache/attention_kernels_simd.h"

namespace nibble::model::attention_kernels {
namespace {

struct Vector128 : simd::Floats128 {
  static constexpr std::size_t kRows = 2;

  using Floats128::load;
  static F load(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static F load(const std::int8_t* p) {
    std::int32_t four = 0;
    __builtin_memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
  }
  template <class Stored>
  static F load(const Stored* p, std::size_t count) {
    Stored padded[kWidth] = {};
    for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
    return load(padded);
  }
};

}  // namespace

const Table kNeon = kTable<Vector128>;

}  // namespace nibble::model::attention_kernels
