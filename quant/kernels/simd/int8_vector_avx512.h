#pragma once

#include <type_traits>

#include "quant/kernels/simd/least_activation.h"
#include "quant/kernels/simd/so_far.h"
#include "quant/kernels/simd/vector_avx512.h"

// The vector type of int8_matvec_simd.h and int8_matmul_simd.h in AVX-512 F, BW, VL, DQ, and what those of VNNI and
// VBMI have in common with it. Only *_avx512*.cc and *_amx.cc include this.
namespace nibble::quant {
namespace {

struct Int8Lanes512 : Vector512 {
  using Sums = __m512i;
  using Inputs = __m512i;

  static Sums set_sums(int value) { return _mm512_set1_epi32(value); }
  static Sums add_sums(Sums a, Sums b) { return _mm512_add_epi32(a, b); }
  static F floats(Sums sums) { return _mm512_cvtepi32_ps(sums); }
  static Sums small_integers(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Inputs inputs(const std::int8_t* x) { return _mm512_loadu_si512(x); }
  static Inputs four_inputs(const std::int8_t* x) {
    int four = 0;
    __builtin_memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
  }

  static Bytes minus_128(Bytes bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)); }
  static Bytes sixteen(const std::uint8_t* entries) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(entries)));
  }

  // vpshufb looks up 16 entries; bits 4 and 5 choose among four of these, by masks.
  template <int kBits>
  struct ShuffledEntries {
    static constexpr std::size_t kTables = kBits <= 4 ? 1 : 4;
    __m512i tables[kTables];
    ShuffledEntries(const std::uint8_t* entries, bool shifted) {
      for (std::size_t i = 0; i < kTables; ++i) {
        tables[i] = sixteen(entries + 16 * i);
        if (shifted) tables[i] = minus_128(tables[i]);
      }
    }
    Bytes bytes(Bytes field) const {
      const __m512i low = _mm512_and_si512(field, _mm512_set1_epi8(15));
      if constexpr (kTables == 1) {
        return _mm512_shuffle_epi8(tables[0], low);
      } else {
        const __mmask64 bit4 = _mm512_test_epi8_mask(field, _mm512_set1_epi8(16)),
                        bit5 = _mm512_test_epi8_mask(field, _mm512_set1_epi8(32));
        const auto of_two = [&](std::size_t i) {
          return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(tables[i], low), bit4, tables[i + 1], low);
        };
        return _mm512_mask_blend_epi8(bit5, of_two(0), of_two(2));
      }
    }
  };

  template <int kBits>
  static Bytes low_bits(Bytes field) {
    return _mm512_and_si512(field, _mm512_set1_epi8((1 << kBits) - 1));
  }

  static void quantize_block(const float* x, std::int8_t* x8, float& scale, std::int32_t& sum) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const bool finite = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) == 0 && largest <= __FLT_MAX__;
    const __m512 inverse = _mm512_set1_ps(largest > kLeastActivation ? 127.0f / largest : 0.0f);
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

// vpmaddubsw multiplies unsigned by signed bytes and adds pairs, saturating to 16 bits. Weights of up to 7 bits fit as
// they are, at most 2 · 127 · 127; wider ones are shifted to -128 … 127 and give their sign to the input, at most
// 2 · 128 · 127. Sums are the same integers as everywhere.
struct Int8Vector512 : Int8Lanes512 {
  // vpmaddwd adds the products of the halves of lanes, and the upper half of an integer below 2^8 is 0.
  static Sums less_products(Sums sums, Sums integers, int factor) {
    return _mm512_add_epi32(sums, _mm512_madd_epi16(integers, _mm512_set1_epi32(-factor)));
  }
  static __m512i add_pairs(__m512i sum, __m512i pairs) {
    return so_far(_mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))));
  }

  struct AnyBytes {
    static constexpr int kLess = 128;
    static Sums dot(Sums sums, Bytes w, Inputs x) {
      const __m512i signs = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
      return add_pairs(sums, _mm512_maddubs_epi16(_mm512_abs_epi8(w), signs));
    }
    static Sums dot_apart(Sums sums, Bytes w, Inputs magnitudes, Inputs negative) {
      return add_pairs(sums, _mm512_maddubs_epi16(magnitudes, _mm512_xor_si512(w, negative)));
    }
  };
  struct SmallBytes {
    static constexpr int kLess = 0;
    static Sums dot(Sums sums, Bytes w, Inputs x) { return add_pairs(sums, _mm512_maddubs_epi16(w, x)); }
  };

  // A block's products. Codes of up to 4 bits: sums are at most 16 · 15 · 127 in each half of a lane, so that these
  // 16 bits hold.
  template <class Product, bool kInHalves>
  struct BlockProduct {
    static Int8Lanes512::Sums begin(Int8Lanes512::Sums start) { return kInHalves ? set_sums(0) : start; }
    static Int8Lanes512::Sums dot(Int8Lanes512::Sums sums, Bytes w, Inputs x) {
      if constexpr (!kInHalves) return Product::dot(sums, w, x);
      return so_far(_mm512_add_epi16(sums, _mm512_maddubs_epi16(w, x)));
    }
    static Int8Lanes512::Sums end(Int8Lanes512::Sums sums, Int8Lanes512::Sums start) {
      return kInHalves ? add_pairs(start, sums) : sums;
    }
    using Sums = Int8Lanes512::Sums;
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
