#pragma once

#include "quant/kernels/simd/vector_avx512.h"
#include "quant/kernels/windows/window_kernels.h"

// Windows of up to 8 bits cut and looked up with AVX-512 VBMI and VBMI2. Only *_avx512_vbmi.cc include this.
//
// vpmultishiftqb fills each byte of a quadword with any eight bits of it. A quadword holds a word of 16 bits of four
// inputs, and a pair of rows, 2 m and 2 m + 1, has both windows within 16 bits of a stream, kStep + 8 from bit
// 2 m · kStep on: words of a vector, or, where those are cut in two, words of it and the next vector shifted together
// (vpshrdw). 512 weights cost `kStep` loads, 2 to 5 shifts, a shuffle for the last windows' next words, and eight
// vpmultishiftqb, one for each 64 weights.
namespace nibble::quant {
namespace {

/// Which order the eight bytes of a quadword come in: inputs 0 1 2 3 of a row and of the next one, or both rows of each
/// input.
enum class WindowOrder { kRows, kInputs };

template <int kStep>
struct Vbmi {
  /// The bit of a stream's chunk at which the words begin that hold pair m: of a vector if possible.
  static constexpr int start_of(int pair) {
    const int first = 2 * pair * kStep, least = first + kStep + 8 > 16 ? first + kStep - 8 : 0;
    const int word = first / 16 * 16, byte = first / 8 * 8;
    return word >= least ? word : byte >= least ? byte : first;
  }

  template <int kPair, WindowOrder kOrder>
  static __m512i control() {
    constexpr int kFirst = 2 * kPair * kStep - start_of(kPair);
    std::uint64_t bits = 0;
    for (int input = 0; input < 4; ++input)
      for (int row = 0; row < 2; ++row) {
        const int byte = kOrder == WindowOrder::kRows ? 4 * row + input : 2 * input + row;
        bits |= static_cast<std::uint64_t>(16 * input + kFirst + row * kStep) << 8 * byte;
      }
    return _mm512_set1_epi64(static_cast<long long>(bits));
  }

  // Bytes 8 … 63 of the first words, and after them bytes 0 1 2 3 of the second table with zeros between.
  static __m512i next_words() {
    alignas(64) std::uint8_t places[64];
    for (int i = 0; i < 64; ++i)
      places[i] = static_cast<std::uint8_t>(i < 56 ? i + 8 : i % 2 == 0 ? 64 + (i - 56) / 2 : 127);
    return _mm512_load_si512(places);
  }

  __m512i words[std::size_t{kStep} + 1];

  Vbmi(const std::uint8_t* unit, const std::uint8_t* after) {
    for (int v = 0; v < kStep; ++v) words[v] = _mm512_loadu_si512(unit + 64 * v);
    int four = 0;
    __builtin_memcpy(&four, after, sizeof four);
    words[kStep] = _mm512_permutex2var_epi8(words[0], next_words(), _mm512_zextsi128_si512(_mm_cvtsi32_si128(four)));
  }

  template <int kStart>
  __m512i words_at() const {
    if constexpr (kStart % 16 == 0)
      return words[kStart / 16];
    else
      return _mm512_shrdi_epi16(words[kStart / 16], words[kStart / 16 + 1], kStart % 16);
  }

  /// The codes of pair m, with anything above their bits.
  template <int kPair, WindowOrder kOrder>
  __m512i codes() const {
    return _mm512_multishift_epi64_epi8(control<kPair, kOrder>(), words_at<start_of(kPair)>());
  }
};

/// Tables of bytes: 64 entries, or 256, chosen by codes whose bits above are ignored. A code is prepared once.
struct Entries64 {
  static constexpr std::size_t kCount = 64;
  __m512i table;
  explicit Entries64(const std::uint8_t* entries) : table(_mm512_loadu_si512(entries)) {}
  struct Code {
    __m512i code;
  };
  static Code prepare(__m512i code) { return {code}; }
  __m512i operator()(const Code& c) const { return _mm512_permutexvar_epi8(c.code, table); }
};

struct Entries256 {
  static constexpr std::size_t kCount = 256;
  __m512i table[4];
  explicit Entries256(const std::uint8_t* entries) {
    for (int i = 0; i < 4; ++i) table[i] = _mm512_loadu_si512(entries + 64 * i);
  }
  struct Code {
    __m512i code;
    __mmask64 upper;
  };
  static Code prepare(__m512i code) { return {code, _mm512_movepi8_mask(code)}; }
  __m512i operator()(const Code& c) const {
    return _mm512_mask_blend_epi8(c.upper, _mm512_permutex2var_epi8(table[0], c.code, table[1]),
                                  _mm512_permutex2var_epi8(table[2], c.code, table[3]));
  }
};

}  // namespace
}  // namespace nibble::quant
