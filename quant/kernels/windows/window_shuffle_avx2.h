#pragma once

#include "quant/kernels/simd/int8_vector_avx2.h"
#include "quant/kernels/windows/window_int8_simd.h"

// Windows cut by shifts of words; entries by vpshufb over parts of 16, chosen bit by bit. Only *_avx2*.cc include this.
namespace nibble::quant {
namespace {

template <class V, int kParts>
struct ShuffledBytes {
  WindowLayout layout;
  __m256i parts[std::size_t{kParts}];
  __m128i to_upper;  ///< from a word's second window to its upper byte

  ShuffledBytes(const WindowLayout& of, const WindowTables& tables)
      : layout(of), to_upper(_mm_cvtsi32_si128(8 - static_cast<int>(of.step))) {
    for (std::size_t i = 0; i < std::size_t{kParts}; ++i) {
      parts[i] = _mm256_broadcastsi128_si256(V::load_quarter(tables.bytes + 16 * i));
      if constexpr (V::AnyBytes::kLess == 128) parts[i] = V::minus_128(parts[i]);
    }
  }

  // The entries of parts [first, first + count) at `low` bits; code · 2^shift has the bit that chooses at the top.
  template <int kFirst, int kCount>
  [[gnu::always_inline]] __m256i chosen(__m256i low, const __m256i (&tops)[4]) const {
    if constexpr (kCount == 1) {
      return _mm256_shuffle_epi8(parts[kFirst], low);
    } else {
      constexpr int kBit = kCount == 2 ? 0 : kCount == 4 ? 1 : kCount == 8 ? 2 : 3;
      return _mm256_blendv_epi8(chosen<kFirst, kCount / 2>(low, tops),
                                chosen<kFirst + kCount / 2, kCount / 2>(low, tops), tops[kBit]);
    }
  }
  [[gnu::always_inline]] __m256i lookup(__m256i codes) const {
    const __m256i low = _mm256_and_si256(codes, _mm256_set1_epi8(15));
    const __m256i tops[4] = {_mm256_slli_epi16(codes, 3), _mm256_slli_epi16(codes, 2), _mm256_slli_epi16(codes, 1),
                             codes};
    return chosen<0, kParts>(low, tops);
  }

  struct Unit {
    const ShuffledBytes& cutter;
    const std::uint8_t* words;
    alignas(32) std::uint8_t last[64];  ///< what follows the last words: the first ones of the next chunk

    [[gnu::always_inline]] __m256i half(const std::uint8_t* here, const std::uint8_t* next, __m128i down,
                                        __m128i up) const {
      const __m256i both = _mm256_or_si256(_mm256_srl_epi16(V::load_half_vector(here), down),
                                           _mm256_sll_epi16(V::load_half_vector(next), up));
      const __m256i codes = _mm256_blendv_epi8(both, _mm256_sll_epi16(both, cutter.to_upper),
                                               _mm256_set1_epi16(static_cast<short>(0xFF00)));
      // Both rows of each input to the inputs of each row.
      const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0, 2, 4, 6, 1, 3, 5,
                                             7, 8, 10, 12, 14, 9, 11, 13, 15);
      return _mm256_shuffle_epi8(cutter.lookup(codes), order);
    }
    template <int kPair>
    [[gnu::always_inline]] typename V::Bytes bytes() const {
      const unsigned first = 2 * kPair * cutter.layout.step, v = first / 16, shift = first % 16;
      const std::uint8_t *here = words + 64 * std::size_t{v}, *next = v + 1 < cutter.layout.step ? here + 64 : last;
      const __m128i down = _mm_cvtsi32_si128(static_cast<int>(shift)),
                    up = _mm_cvtsi32_si128(16 - static_cast<int>(shift));  // 16 leaves nothing
      return {half(here, next, down, up), half(here + 32, next + 32, down, up)};
    }
  };
  [[gnu::always_inline]] Unit unit(const std::uint8_t* codes, const std::uint8_t* after) const {
    Unit made{*this, codes, {}};
    __builtin_memcpy(made.last, codes + 8, 56);
    for (std::size_t t = 0; t < kUnitInputs; ++t) made.last[56 + 2 * t] = after[t];
    return made;
  }
};

}  // namespace
}  // namespace nibble::quant
