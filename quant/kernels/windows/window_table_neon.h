#pragma once

#include "quant/kernels/simd/int8_vector_neon.h"
#include "quant/kernels/windows/window_int8_simd.h"

// Windows cut by shifts of words; entries by tbl over parts of 64. Only *_neon*.cc include this.
namespace nibble::quant {
namespace {

template <class V, int kParts>
struct TableBytes {
  WindowLayout layout;
  uint8x16x4_t tables[std::size_t{kParts / 4}];
  int16x8_t to_upper;  ///< from a word's second window to its upper byte

  TableBytes(const WindowLayout& of, const WindowTables& with)
      : layout(of), to_upper(vdupq_n_s16(static_cast<std::int16_t>(8 - static_cast<int>(of.step)))) {
    for (std::size_t i = 0; i < std::size_t{kParts}; ++i) {
      const uint8x16_t part = vld1q_u8(with.bytes + 16 * i);
      tables[i / 4].val[i % 4] = V::AnyBytes::kLess == 128 ? V::minus_128(part) : part;
    }
  }

  [[gnu::always_inline]] uint8x16_t lookup(uint8x16_t codes) const {
    if constexpr (kParts == 4) {
      return vqtbl4q_u8(tables[0], vandq_u8(codes, vdupq_n_u8(63)));
    } else {  // tbx keeps what is there where the index is beyond its table
      uint8x16_t found = vqtbl4q_u8(tables[0], codes);
      for (std::size_t i = 1; i < kParts / 4; ++i)
        found = vqtbx4q_u8(found, tables[i], vsubq_u8(codes, vdupq_n_u8(static_cast<std::uint8_t>(64 * i))));
      return found;
    }
  }

  struct Unit {
    const TableBytes& cutter;
    const std::uint8_t* words;
    alignas(16) std::uint8_t last[64];  ///< what follows the last words: the first ones of the next chunk

    [[gnu::always_inline]] uint8x16_t quarter(const std::uint8_t* here, const std::uint8_t* next, int16x8_t down,
                                              int16x8_t up) const {
      const auto load = [](const std::uint8_t* p) { return vreinterpretq_u16_u8(vld1q_u8(p)); };
      const uint16x8_t both = vorrq_u16(vshlq_u16(load(here), down), vshlq_u16(load(next), up));
      const uint8x16_t codes =
          vreinterpretq_u8_u16(vbslq_u16(vdupq_n_u16(0xFF00), vshlq_u16(both, cutter.to_upper), both));
      // Both rows of each input to the inputs of each row.
      constexpr std::uint8_t kOrder[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
      return vqtbl1q_u8(cutter.lookup(codes), vld1q_u8(kOrder));
    }
    template <int kPair>
    [[gnu::always_inline]] typename V::Bytes bytes() const {
      const unsigned first = 2 * kPair * cutter.layout.step, v = first / 16, shift = first % 16;
      const std::uint8_t *here = words + 64 * std::size_t{v}, *next = v + 1 < cutter.layout.step ? here + 64 : last;
      const int16x8_t down = vdupq_n_s16(static_cast<std::int16_t>(-static_cast<int>(shift))),
                      up = vdupq_n_s16(static_cast<std::int16_t>(16 - static_cast<int>(shift)));  // 16 leaves nothing
      return {quarter(here, next, down, up), quarter(here + 16, next + 16, down, up),
              quarter(here + 32, next + 32, down, up), quarter(here + 48, next + 48, down, up)};
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
