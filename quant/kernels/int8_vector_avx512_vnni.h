#pragma once

#include "quant/kernels/vector_avx512.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h in AVX-512 F, BW, VL, DQ, VNNI, VBMI. Only
// *_avx512_vnni.cc include this.
namespace nibble::quant {
namespace {

struct Int8Vector512 : Vector512 {
  using Sums = __m512i;
  using Inputs = __m512i;

  static Sums set_sums(int value) { return _mm512_set1_epi32(value); }
  static Sums add_sums(Sums a, Sums b) { return _mm512_add_epi32(a, b); }
  static F floats(Sums sums) { return _mm512_cvtepi32_ps(sums); }
  static Sums small_integers(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // vpmaddwd and its like add the products of the halves of lanes, and the upper half of an integer below 2^8 is 0.
  static Sums less_products(Sums sums, Sums integers, int factor) {
    return _mm512_dpwssd_epi32(sums, integers, _mm512_set1_epi32(-factor));
  }
  static Inputs inputs(const std::int8_t* x) { return _mm512_loadu_si512(x); }
  static Inputs four_inputs(const std::int8_t* x) {
    int four = 0;
    __builtin_memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
  }

  struct AnyBytes {
    static constexpr int kLess = 0;
    static Sums dot(Sums sums, Bytes w, Inputs x) { return _mm512_dpbusd_epi32(sums, w, x); }
  };
  using SmallBytes = AnyBytes;

  // vpermb looks at the low 6 bits of a byte only, and the table repeats to fill them: no masking.
  template <int kBits>
  struct Entries {
    using Product = AnyBytes;
    __m512i table;
    explicit Entries(const std::uint8_t* entries) {
      if constexpr (kBits <= 4)
        table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(entries)));
      else
        table = _mm512_loadu_si512(entries);
    }
    Bytes bytes(Bytes field) const { return _mm512_permutexvar_epi8(field, table); }
  };

  template <int kBits>
  struct Codes {
    using Product = SmallBytes;
    Bytes bytes(Bytes field) const {
      if constexpr (kBits < 8) field = _mm512_and_si512(field, _mm512_set1_epi8((1 << kBits) - 1));
      return field;
    }
  };

  static void quantize_block(const float* x, std::int8_t* x8, float& scale, std::int32_t& sum) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const bool finite = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) == 0 && largest <= __FLT_MAX__;
    const __m512 inverse = _mm512_set1_ps(largest > 0.0f ? 127.0f / largest : 0.0f);
    const auto round = [&](__m512 v) {
      return finite ? _mm512_cvtps_epi32(_mm512_mul_ps(v, inverse)) : _mm512_setzero_si512();
    };
    const __m512i qa = round(a), qb = round(b);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x8), _mm512_cvtsepi32_epi8(qa));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x8 + 16), _mm512_cvtsepi32_epi8(qb));
    scale = finite ? largest / 127.0f : __builtin_nanf("");
    sum = _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
  }
};

}  // namespace
}  // namespace nibble::quant
