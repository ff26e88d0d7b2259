#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "core/simd/floats_avx512.h"

// The vector type of code_vectors.h and exact_matvec_simd.h in AVX-512 F, BW, VL, DQ. Only *_avx512*.cc include this.
namespace nibble::quant {
namespace {

struct Vector512 : simd::Floats512 {
  using Bytes = __m512i;

  static Bytes load_bytes(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  static void store_bytes(std::uint8_t* p, Bytes v) { _mm512_storeu_si512(p, v); }
  static Bytes widen_bytes(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  template <int kShift>
  static Bytes srl(Bytes v) {
    return _mm512_srli_epi32(v, kShift);
  }
  template <int kShift>
  static Bytes sll(Bytes v) {
    return _mm512_slli_epi32(v, kShift);
  }
  template <int kMask>
  static Bytes merge(Bytes a, Bytes b) {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(static_cast<char>(kMask)), a, b, 0xCA);
  }

  static F load(const void* p) { return _mm512_loadu_ps(p); }
  static float sum(F v) { return _mm512_reduce_add_ps(v); }
  static F load_half(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  static F load_bfloat(const void* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static F load_small(const std::uint8_t* p) { return _mm512_cvtepi32_ps(widen_bytes(p)); }
  template <int kBits>
  static F integers(Bytes v) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(v, _mm512_set1_epi32((1 << kBits) - 1)));
  }

  // Up to 16 entries: vpermps looks at the low four bits of a lane only, and the table repeats to fill them.
  template <int kBits>
  struct Lookup {
    static_assert(kBits <= 4);
    F entries;
    explicit Lookup(const float* table) {
      if constexpr (kBits == 1)
        entries = _mm512_broadcast_f32x2(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(table))));
      else if constexpr (kBits == 2)
        entries = _mm512_broadcast_f32x4(_mm_loadu_ps(table));
      else if constexpr (kBits == 3)
        entries = _mm512_broadcast_f32x8(_mm256_loadu_ps(table));
      else
        entries = load(table);
    }
    F operator()(Bytes v) const { return _mm512_permutexvar_ps(v, entries); }
  };
};

template <>
struct Vector512::Lookup<6> {
  F a, b, c, d;
  explicit Lookup(const float* table) : a(load(table)), b(load(table + 16)), c(load(table + 32)), d(load(table + 48)) {}
  F operator()(Bytes v) const {
    const F low = _mm512_permutex2var_ps(a, v, b), high = _mm512_permutex2var_ps(c, v, d);
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(v, _mm512_set1_epi32(32)), low, high);
  }
};

template <>
struct Vector512::Lookup<8> {
  const float* table;
  explicit Lookup(const float* entries) : table(entries) {}
  F operator()(Bytes v) const { return _mm512_i32gather_ps(_mm512_and_si512(v, _mm512_set1_epi32(255)), table, 4); }
};

}  // namespace
}  // namespace nibble::quant
