#pragma once

#include "quant/kernels/simd/int8_vector_avx512.h"
#include "quant/kernels/windows/window_int8_simd.h"

// Windows of up to 8 bits without AVX-512 VBMI: cut by shifts of words, and looked up by vpshufb or vpermt2w. Only
// *_avx512.cc and *_avx512_vnni.cc include this.
namespace nibble::quant {
namespace {

// A lookup of both windows of each word: the first one from bit 0 on, the second one from bit kStep on, anything above
// them. Entries come in the two bytes of the word. Tables are xored with `flip`.

// Up to 64 entries: vpshufb over parts of 16, chosen by masks of bits 4 and 5 of each byte.
struct ShuffledWindow64 {
  static constexpr int kMostBits = 6;
  Int8Lanes512::ShuffledEntries<6> entries;
  explicit ShuffledWindow64(const std::uint8_t* bytes, bool shifted) : entries(bytes, shifted) {}
  template <int kStep>
  [[gnu::always_inline]] __m512i lookup(__m512i words) const {
    const __m512i lower = _mm512_set1_epi16(0xFF);
    return entries.bytes(_mm512_ternarylogic_epi32(lower, words, _mm512_slli_epi16(words, 8 - kStep), 0xCA));
  }
};

// 256 entries are 128 words, of which vpermt2w chooses among 64; bit 7 chooses between two such tables, bit 0 one of
// the bytes. 4 shuffles, where parts of 16 entries would take 16.
struct ShuffledWindow256 {
  static constexpr int kMostBits = 8;
  __m512i tables[4];
  explicit ShuffledWindow256(const std::uint8_t* bytes, bool shifted) {
    for (std::size_t i = 0; i < 4; ++i) {
      tables[i] = _mm512_loadu_si512(bytes + 64 * i);
      if (shifted) tables[i] = Int8Lanes512::minus_128(tables[i]);
    }
  }
  // The words of entries that windows from bit kFirst on are in.
  template <int kFirst>
  [[gnu::always_inline]] __m512i entry_words(__m512i words) const {
    const __m512i index = _mm512_srli_epi16(words, kFirst + 1);
    const __mmask32 upper = _mm512_test_epi16_mask(words, _mm512_set1_epi16(static_cast<short>(0x80 << kFirst)));
    return _mm512_mask_blend_epi16(upper, _mm512_permutex2var_epi16(tables[0], index, tables[1]),
                                   _mm512_permutex2var_epi16(tables[2], index, tables[3]));
  }
  template <int kStep>
  [[gnu::always_inline]] __m512i lookup(__m512i words) const {
    const __m512i eight = _mm512_set1_epi16(8);
    // Down by 8 if bit 0 is set; up by 8 if it is not.
    const __m512i down = _mm512_and_si512(_mm512_slli_epi16(words, 3), eight);
    __m512i odd;
    if constexpr (kStep <= 3)
      odd = _mm512_slli_epi16(words, 3 - kStep);
    else
      odd = _mm512_srli_epi16(words, 1);
    const __m512i first = _mm512_srlv_epi16(entry_words<0>(words), down),
                  second = _mm512_sllv_epi16(entry_words<kStep>(words), _mm512_andnot_si512(odd, eight));
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(0xFF), first, second, 0xCA);
  }
};

template <class V, int kStep, class Entries>
struct ShuffledWindows512 {
  Entries entries;
  ShuffledWindows512(const WindowLayout&, const WindowTables& tables)
      : entries(tables.bytes, V::AnyBytes::kLess == 128) {}

  struct Unit {
    const Entries& entries;
    __m512i words[std::size_t{kStep} + 1];

    template <int kPair>
    [[gnu::always_inline]] __m512i bytes() const {
      constexpr int kFirst = 2 * kPair * kStep, kShift = kFirst % 16;
      constexpr std::size_t kVector = kFirst / 16;
      __m512i both = words[kVector];
      if constexpr (kShift > 0) both = _mm512_srli_epi16(both, kShift);
      if constexpr (kShift + kStep + Entries::kMostBits > 16)
        both = _mm512_or_si512(both, _mm512_slli_epi16(words[kVector + 1], 16 - kShift));
      // Both rows of each input to the inputs of each row.
      const __m512i order = _mm512_set4_epi32(0x0F0D0B09, 0x0E0C0A08, 0x07050301, 0x06040200);
      return _mm512_shuffle_epi8(entries.template lookup<kStep>(both), order);
    }
  };

  [[gnu::always_inline]] Unit unit(const std::uint8_t* codes, const std::uint8_t* after) const {
    Unit made{entries, {}};
    code_vectors::unroll<kStep>([&](auto v) { made.words[v.index] = _mm512_loadu_si512(codes + 64 * v.index); });
    // What follows the last words: the first ones of the next chunk, and after the last chunk the bytes that say so.
    int four = 0;
    __builtin_memcpy(&four, after, sizeof four);
    const __m512i beyond = _mm512_zextsi128_si512(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
    made.words[kStep] = _mm512_alignr_epi64(beyond, made.words[0], 1);
    return made;
  }
};

}  // namespace
}  // namespace nibble::quant
