#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// The vector type of code_vectors.h and exact_matvec_simd.h in AVX2, FMA, F16C: pairs of registers. Only *_avx2*.cc
// include this.
namespace nibble::quant {
namespace {

struct Vector2x256 {
  struct Bytes {
    __m256i low, high;
  };
  struct F {
    __m256 low, high;
  };

  static const void* byte_at(const void* p, std::size_t index) { return static_cast<const char*>(p) + index; }
  static __m256i load_half_vector(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static __m128i load_quarter(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static Bytes load_bytes(const std::uint8_t* p) { return {load_half_vector(p), load_half_vector(p + 32)}; }
  static void store_bytes(std::uint8_t* p, Bytes v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.high);
  }
  static Bytes widen_bytes(const std::uint8_t* p) {
    const auto eight = [](const std::uint8_t* at) {
      return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    };
    return {eight(p), eight(p + 8)};
  }
  template <int kShift>
  static Bytes srl(Bytes v) {
    return {_mm256_srli_epi32(v.low, kShift), _mm256_srli_epi32(v.high, kShift)};
  }
  template <int kShift>
  static Bytes sll(Bytes v) {
    return {_mm256_slli_epi32(v.low, kShift), _mm256_slli_epi32(v.high, kShift)};
  }
  static __m256i merge(__m256i mask, __m256i a, __m256i b) {
    return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
  }
  template <int kMask>
  static Bytes merge(Bytes a, Bytes b) {
    const __m256i mask = _mm256_set1_epi8(static_cast<char>(kMask));
    return {merge(mask, a.low, b.low), merge(mask, a.high, b.high)};
  }

  static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F load(const void* p) {
    const auto eight = [](__m256i bits) { return _mm256_castsi256_ps(bits); };
    return {eight(load_half_vector(p)), eight(load_half_vector(byte_at(p, 32)))};
  }
  static F add(F a, F b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  static F mul(F a, F b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  static F sub(F a, F b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  static F fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static F fnma(F a, F b, F c) {
    return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
  }
  static void store(float* p, F v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static float sum(F v) {
    const __m256 eight = _mm256_add_ps(v.low, v.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static F load_half(const void* p) {
    return {_mm256_cvtph_ps(load_quarter(p)), _mm256_cvtph_ps(load_quarter(byte_at(p, 16)))};
  }
  static F load_bfloat(const void* p) {
    const auto eight = [](__m128i bits) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    };
    return {eight(load_quarter(p)), eight(load_quarter(byte_at(p, 16)))};
  }
  static F load_small(const std::uint8_t* p) {
    const Bytes wide = widen_bytes(p);
    return {_mm256_cvtepi32_ps(wide.low), _mm256_cvtepi32_ps(wide.high)};
  }
  template <int kBits>
  static F integers(Bytes v) {
    const __m256i mask = _mm256_set1_epi32((1 << kBits) - 1);
    return {_mm256_cvtepi32_ps(_mm256_and_si256(v.low, mask)), _mm256_cvtepi32_ps(_mm256_and_si256(v.high, mask))};
  }

  // More than 16 entries: from the first-level cache.
  template <int kBits>
  struct Lookup {
    static_assert(kBits > 4);
    const float* table;
    explicit Lookup(const float* entries) : table(entries) {}
    __m256 half(__m256i v) const {
      return _mm256_i32gather_ps(table, _mm256_and_si256(v, _mm256_set1_epi32((1 << kBits) - 1)), 4);
    }
    F operator()(Bytes v) const { return {half(v.low), half(v.high)}; }
  };
};

// Up to 8 entries: vpermps looks at the low three bits of a lane only, and the table repeats to fill them.
struct Lookup8 {
  __m256 entries;
  Vector2x256::F operator()(Vector2x256::Bytes v) const {
    return {_mm256_permutevar8x32_ps(entries, v.low), _mm256_permutevar8x32_ps(entries, v.high)};
  }
};
template <>
struct Vector2x256::Lookup<1> : Lookup8 {
  explicit Lookup(const float* table)
      : Lookup8{
            _mm256_castsi256_ps(_mm256_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(table))))} {}
};
template <>
struct Vector2x256::Lookup<2> : Lookup8 {
  explicit Lookup(const float* table) : Lookup8{_mm256_broadcast_ps(reinterpret_cast<const __m128*>(table))} {}
};
template <>
struct Vector2x256::Lookup<3> : Lookup8 {
  explicit Lookup(const float* table) : Lookup8{_mm256_loadu_ps(table)} {}
};
// 16 entries: both halves of the table, then bit 3, moved to the sign, chooses.
template <>
struct Vector2x256::Lookup<4> {
  __m256 a, b;
  explicit Lookup(const float* table) : a(_mm256_loadu_ps(table)), b(_mm256_loadu_ps(table + 8)) {}
  __m256 half(__m256i v) const {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(a, v), _mm256_permutevar8x32_ps(b, v),
                            _mm256_castsi256_ps(_mm256_slli_epi32(v, 28)));
  }
  F operator()(Bytes v) const { return {half(v.low), half(v.high)}; }
};

}  // namespace
}  // namespace nibble::quant
