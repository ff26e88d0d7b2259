#pragma once

#include "quant/kernels/window_matvec_simd.h"

// Windows of any width cut by shifts of words, and entries gathered, over a vector type V that also offers
//            Bytes                       64 bytes as 32 words of 16 bits
//            cut(this, next, shift, mask)   bits [shift, shift + 16) of the words, next's above this's, masked
//            low_words(v), high_words(v)    words 0 … 3, or 4 … 7, of every 128 bits as lanes
//            gather(table, v)            16 floats
//            transpose_fours(rows)       4 F: within 128 bits, lane l of vector v changes places with lane v of vector
//            l
namespace nibble::quant::window_matvec {

template <class V>
struct GatherDecoder {
  WindowLayout layout;
  const float* table;
  GatherDecoder(const WindowLayout& of, const WindowTables& with) : layout(of), table(with.entries) {}

  void decode(const std::uint8_t* units, const std::uint8_t* after, float* w) const {
    for (std::size_t u = 0; u < kHalfUnits; ++u)
      decode_unit(units + u * layout.unit_bytes(), after + u * kUnitInputs, w + u * kUnitInputs * kWindowRows);
  }

  void decode_unit(const std::uint8_t* unit, const std::uint8_t* after, float* w) const {
    // What follows the last words: the first ones of the next chunk.
    alignas(64) std::uint8_t last[64];
    __builtin_memcpy(last, unit + 8, 56);
    for (std::size_t t = 0; t < kUnitInputs; ++t) {
      last[56 + 2 * t] = after[t];
      last[57 + 2 * t] = 0;
    }
    const auto words = [&](unsigned v) { return V::load_bytes(v < layout.step ? unit + 64 * std::size_t{v} : last); };
    const int mask = static_cast<int>(layout.entries()) - 1;
    for (unsigned g = 0; g < 4; ++g) {
      typename V::F even[4], odd[4];
      for (unsigned r = 0; r < 4; ++r) {
        const unsigned first = (4 * g + r) * layout.step, v = first / 16;
        const auto codes = V::cut(words(v), words(v + 1), first % 16, mask);
        even[r] = V::gather(table, V::low_words(codes));
        odd[r] = V::gather(table, V::high_words(codes));
      }
      V::transpose_fours(even);
      V::transpose_fours(odd);
      for (std::size_t t = 0; t < kUnitInputs; ++t) {
        V::store(w + t * kWindowRows + 16 * std::size_t{g}, even[t]);
        V::store(w + t * kWindowRows + 64 + 16 * std::size_t{g}, odd[t]);
      }
    }
  }
};

}  // namespace nibble::quant::window_matvec
