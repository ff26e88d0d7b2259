#pragma once

#include "quant/kernels/windows/window_matvec_simd.h"

// Windows of any width cut by shifts of words, 32 at a time, over a vector type V that also offers
//            cut(this, next, shift, mask)   bits [shift, shift + 16) of 32 words, next's above this's, masked
//
// Entries are loaded one by one, straight to the places of their rows: gathers would have to be transposed.
namespace nibble::quant::window_matvec {

template <class V>
struct ShiftDecoder {
  WindowLayout layout;
  const float* table;
  ShiftDecoder(const WindowLayout& of, const WindowTables& with) : layout(of), table(with.entries) {}

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
    for (unsigned row = 0; row < kChunkRows; ++row) {
      const unsigned first = row * layout.step, v = first / 16;
      alignas(64) std::uint16_t codes[32];  // of the chunks, four inputs each
      V::store_bytes(reinterpret_cast<std::uint8_t*>(codes), V::cut(words(v), words(v + 1), first % 16, mask));
      for (std::size_t chunk = 0; chunk < kChunks; ++chunk)
        for (std::size_t t = 0; t < kUnitInputs; ++t)
          w[t * kWindowRows + float_place(chunk * kChunkRows + row)] = table[codes[4 * chunk + t]];
    }
  }
};

}  // namespace nibble::quant::window_matvec
