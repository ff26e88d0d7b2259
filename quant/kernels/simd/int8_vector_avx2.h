#pragma once

#include <type_traits>

#include "quant/kernels/simd/least_activation.h"
#include "quant/kernels/simd/so_far.h"
#include "quant/kernels/simd/vector_avx2.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h in AVX2, FMA, F16C. Only
// *_avx2.cc and *_avx2_vnni.cc include this.
namespace nibble::quant {
namespace {

struct Int8Lanes2x256 : Vector2x256 {
  using Sums = Bytes;
  using Inputs = Bytes;

  template <class Operation>
  static Bytes both(Bytes a, Bytes b, const Operation& operation) {
    return {operation(a.low, b.low), operation(a.high, b.high)};
  }
  static Sums set_sums(int value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
  static Sums add_sums(Sums a, Sums b) {
    return both(a, b, [](__m256i u, __m256i v) { return _mm256_add_epi32(u, v); });
  }
  static F floats(Sums sums) { return {_mm256_cvtepi32_ps(sums.low), _mm256_cvtepi32_ps(sums.high)}; }
  static Sums small_integers(const std::uint8_t* p) {
    const auto eight = [](const std::uint8_t* at) {
      return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    };
    return {eight(p), eight(p + 8)};
  }
  // vpmaddwd adds the products of the halves of lanes, and the upper half of an integer below 2^8 is 0.
  static Sums less_products(Sums sums, Sums integers, int factor) {
    const __m256i less = _mm256_set1_epi32(-factor);
    return add_sums(sums, {_mm256_madd_epi16(integers.low, less), _mm256_madd_epi16(integers.high, less)});
  }
  static Inputs inputs(const std::int8_t* x) { return {load_half_vector(x), load_half_vector(x + 32)}; }
  static Inputs four_inputs(const std::int8_t* x) {
    int four = 0;
    __builtin_memcpy(&four, x, sizeof four);
    return set_sums(four);
  }

  static __m256i minus_128(__m256i bytes) { return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)); }
  static Bytes minus_128(Bytes bytes) { return {minus_128(bytes.low), minus_128(bytes.high)}; }

  // vpshufb looks up 16 entries; bits 4 and 5 choose among four of these.
  template <int kBits>
  struct ShuffledEntries {
    static constexpr std::size_t kTables = kBits <= 4 ? 1 : 4;
    __m256i tables[kTables];
    ShuffledEntries(const std::uint8_t* entries, bool shifted) {
      for (std::size_t i = 0; i < kTables; ++i) {
        tables[i] = _mm256_broadcastsi128_si256(load_quarter(entries + 16 * i));
        if (shifted) tables[i] = minus_128(tables[i]);
      }
    }
    __m256i lookup(__m256i field) const {
      const __m256i low = _mm256_and_si256(field, _mm256_set1_epi8(15));
      if constexpr (kTables == 1) return _mm256_shuffle_epi8(tables[0], low);
      // Bits 4 and 5, moved to the top of their byte, choose.
      const __m256i bit4 = _mm256_slli_epi16(field, 3), bit5 = _mm256_slli_epi16(field, 2);
      const auto of_two = [&](std::size_t i) {
        return _mm256_blendv_epi8(_mm256_shuffle_epi8(tables[i], low), _mm256_shuffle_epi8(tables[i + 1], low), bit4);
      };
      return _mm256_blendv_epi8(of_two(0), of_two(kTables - 2), bit5);
    }
    Bytes bytes(Bytes field) const { return {lookup(field.low), lookup(field.high)}; }
  };

  template <int kBits>
  static Bytes low_bits(Bytes field) {
    const __m256i mask = _mm256_set1_epi8((1 << kBits) - 1);
    return {_mm256_and_si256(field.low, mask), _mm256_and_si256(field.high, mask)};
  }

  static void quantize_block(const float* x, std::int8_t* x8, float& scale, std::int32_t& sum) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 largest_of_lanes = _mm256_setzero_ps(), unordered = _mm256_setzero_ps();
    for (std::size_t i = 0; i < 32; i += 8) {
      const __m256 v = _mm256_loadu_ps(x + i);
      largest_of_lanes = _mm256_max_ps(largest_of_lanes, _mm256_andnot_ps(sign, v));
      unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    }
    float lanes[8], largest = 0.0f;
    _mm256_storeu_ps(lanes, largest_of_lanes);
    for (const float lane : lanes) largest = lane > largest ? lane : largest;
    const bool finite = _mm256_movemask_ps(unordered) == 0 && largest <= __FLT_MAX__;
    const __m256 inverse = _mm256_set1_ps(largest > kLeastActivation ? 127.0f / largest : 0.0f);
    const auto round = [&](std::size_t i) {
      return finite ? _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), inverse)) : _mm256_setzero_si256();
    };
    const __m256i a = round(0), b = round(8), c = round(16), d = round(24);
    // Packing works within halves of 128 bits: four bytes of a, b, c, d, and again. A permutation sorts them.
    const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const __m256i sorted = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(x8), sorted);
    scale = finite ? largest / 127.0f : __builtin_nanf("");
    std::int32_t sums[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums),
                        _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)));
    sum = 0;
    for (const std::int32_t lane : sums) sum += lane;
  }
};

// vpmaddubsw multiplies unsigned by signed bytes and adds pairs, saturating to 16 bits. Weights of up to 7 bits fit as
// they are, at most 2 · 127 · 127; wider ones are shifted to -128 … 127 and give their sign to the input, at most
// 2 · 128 · 127. Sums are the same integers as everywhere.
struct Int8Vector2x256 : Int8Lanes2x256 {
  static constexpr int kTilePanels = 1, kTileTokens = 4;  // 8 sums, 2 weights, 1 input, 1s of 16 registers

  static __m256i add_pairs(__m256i sum, __m256i pairs) {
    return so_far(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
  }
  static __m256i dot_of_unsigned(__m256i sum, __m256i w, __m256i x) {
    return add_pairs(sum, _mm256_maddubs_epi16(w, x));
  }
  static __m256i dot_of_signed(__m256i sum, __m256i w, __m256i x) {
    return add_pairs(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
  }

  struct AnyBytes {
    static constexpr int kLess = 128;
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      return {dot_of_signed(sums.low, w.low, x.low), dot_of_signed(sums.high, w.high, x.high)};
    }
    static Sums dot_apart(Sums sums, Bytes w, Inputs magnitudes, Inputs negative) {
      return {dot_of_unsigned(sums.low, magnitudes.low, _mm256_xor_si256(w.low, negative.low)),
              dot_of_unsigned(sums.high, magnitudes.high, _mm256_xor_si256(w.high, negative.high))};
    }
  };
  struct SmallBytes {
    static constexpr int kLess = 0;
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      return {dot_of_unsigned(sums.low, w.low, x.low), dot_of_unsigned(sums.high, w.high, x.high)};
    }
  };

  // A block's products. Codes of up to 4 bits: sums of a block are at most 16 · 15 · 127 in each half of a lane, so
  // that these 16 bits hold.
  template <class Product, bool kInHalves>
  struct BlockProduct {
    using Sums = Int8Lanes2x256::Sums;
    static Sums begin(Sums start) { return kInHalves ? set_sums(0) : start; }
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      if constexpr (!kInHalves) return Product::dot(sums, w, x);
      return {so_far(_mm256_add_epi16(sums.low, _mm256_maddubs_epi16(w.low, x.low))),
              so_far(_mm256_add_epi16(sums.high, _mm256_maddubs_epi16(w.high, x.high)))};
    }
    static Sums end(Sums sums, Sums start) {
      if constexpr (!kInHalves) return sums;
      return {add_pairs(start.low, sums.low), add_pairs(start.high, sums.high)};
    }
  };

  template <int kBits>
  struct Entries : ShuffledEntries<kBits> {
    using Product = AnyBytes;
    explicit Entries(const std::uint8_t* entries) : ShuffledEntries<kBits>(entries, true) {}
  };

  template <int kBits>
  struct Codes {
    using Product = std::conditional_t<kBits == 8, AnyBytes, SmallBytes>;
    Bytes bytes(Bytes field) const {
      if constexpr (kBits == 8)
        return minus_128(field);
      else
        return low_bits<kBits>(field);
    }
  };
};

}  // namespace
}  // namespace nibble::quant
