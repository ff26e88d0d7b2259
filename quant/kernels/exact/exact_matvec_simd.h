#pragma once

#include "quant/kernels/exact/exact_matvec.h"
#include "quant/kernels/simd/ahead.h"
#include "quant/kernels/simd/code_vectors.h"

// The kernels of exact_matvec.h over a vector type V (see code_vectors.h), which also offers
//            F                           16 floats
//            zero(), set(x), load(p), add(a, b), fma(a, b, c) = a b + c, fnma(a, b, c) = c - a b, store(p, v), sum(v)
//            load_half(p)                16 float16 values
//            load_small(p)               16 unsigned bytes as floats
//            Lookup<kBits>(table)        (v) -> table[low kBits of each lane]; whatever is above them is ignored
//            integers<kBits>(v)          low kBits of each lane as floats
namespace nibble::quant::exact_matvec {

using code_vectors::BlockAhead;
using code_vectors::Int;
using code_vectors::total;
using code_vectors::Unit;
using code_vectors::unroll;

// What a code means: an entry of the panel's palette, or, for blocks, code - 2^(bits-1) ...
template <class V, int kBits>
struct PaletteValues {
  typename V::template Lookup<kBits> lookup;
  [[gnu::always_inline]] explicit PaletteValues(const ExactMatvecArgs& args, std::size_t panel)
      : lookup(args.tables + ((args.first_panel + panel) / args.panels_per_table << kBits)) {}
  [[gnu::always_inline]] typename V::F operator()(typename V::Bytes v) const { return lookup(v); }
};

template <class V, int kBits>
struct BlockValues {
  typename V::F middle;
  [[gnu::always_inline]] explicit BlockValues(const ExactMatvecArgs& args, std::size_t)
      : middle(V::set(static_cast<float>(args.zero_of_table))) {}
  [[gnu::always_inline]] typename V::F operator()(typename V::Bytes v) const {
    return V::sub(V::template integers<kBits>(v), middle);
  }
};

// ... which a table gives, too, where it fits into a register.
template <class V, int kBits>
requires(kBits <= 4) struct BlockValues<V, kBits> : PaletteValues<V, kBits> {
  using PaletteValues<V, kBits>::PaletteValues;
};

// Adds the products of one unit to sums[t][chain]. Chains hide the latency of additions when there are few tokens.
template <class V, int kBits, bool kSharedX, std::size_t kTokens, std::size_t kChains, class Values>
[[gnu::always_inline]] inline void add_unit(const std::uint8_t* codes, const Ahead<V>& ahead, const float* x,
                                            std::size_t x_stride, const Values& values,
                                            typename V::F (&sums)[kTokens][kChains]) {
  const Unit<V, kBits> unit(codes, ahead);
  unroll<Unit<V, kBits>::kFields>([&](auto f) {
    const auto field = unit.template field<f.value>();
    unroll<4>([&](auto b) {
      const auto w = values(code_vectors::shifted_right<V, 8 * b.value>(field));
      const float* at = x + (f.index * 4 + b.index) * (kSharedX ? 1 : 16);
      for (std::size_t t = 0; t < kTokens; ++t) {
        const float* x_t = at + t * x_stride;
        auto& sum = sums[t][b.index % kChains];
        sum = V::fma(w, kSharedX ? V::set(*x_t) : V::load(x_t), sum);
      }
    });
  });
}

template <class V, std::size_t kTokens, std::size_t kChains>
[[gnu::always_inline]] inline void clear(typename V::F (&sums)[kTokens][kChains]) {
  for (auto& token : sums)
    for (auto& sum : token) sum = V::zero();
}

template <class V, int kBits, bool kShared, std::size_t kTokens>
void palettes(const ExactMatvecArgs& args) {
  constexpr std::size_t kChains = code_vectors::chains<V>();
  constexpr std::size_t kInputs = CodeLayout{kBits, kShared ? kPanelRows : 1}.unit_inputs();
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.units * args.unit_bytes);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const PaletteValues<V, kBits> values(args, panel);
    typename V::F sums[kTokens][kChains];
    clear<V>(sums);
    const float* x = args.x;
    for (std::size_t unit = 0; unit < args.units; ++unit, codes += args.unit_bytes, x += kInputs)
      add_unit<V, kBits, kShared, kTokens, kChains>(codes, ahead, x, args.x_stride, values, sums);
    for (std::size_t t = 0; t < kTokens; ++t) {
      if constexpr (kShared) {
        V::store(args.y + t * args.y_stride + panel * kPanelRows, total<V>(sums[t]));
      } else {
        args.y[t * args.y_stride + panel] = V::sum(total<V>(sums[t]));
      }
    }
  }
}

template <class V, int kBits, std::size_t kTokens, std::size_t kBlock = kBlockInputs>
void blocks(const ExactMatvecArgs& args) {
  constexpr std::size_t kChains = code_vectors::chains<V>();
  constexpr std::size_t kInputs = CodeLayout{kBits, kPanelRows}.unit_inputs(), kUnits = kBlock / kInputs;
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.units * args.unit_bytes);
  const BlockAhead<V, kBits, kBlock> ahead_of_blocks(args.block_scales, args.block_zeros, args.panels * args.blocks);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const BlockValues<V, kBits> values(args, 0);
    typename V::F totals[kTokens][1];
    clear<V>(totals);
    for (std::size_t block = 0; block < args.blocks; ++block) {
      typename V::F sums[kTokens][kChains];
      clear<V>(sums);
      for (std::size_t unit = 0; unit < kUnits; ++unit, codes += args.unit_bytes)
        add_unit<V, kBits, true, kTokens, kChains>(codes, ahead, args.x + block * kBlock + unit * kInputs,
                                                   args.x_stride, values, sums);
      const std::size_t at = (panel * args.blocks + block) * kPanelRows;
      ahead_of_blocks(panel * args.blocks + block);
      const auto scale = V::load_half(args.block_scales + at);
      for (std::size_t t = 0; t < kTokens; ++t) {
        auto sum = total<V>(sums[t]);
        if (args.block_zeros != nullptr) {
          const auto shift =
              V::sub(V::load_small(args.block_zeros + at), V::set(static_cast<float>(args.zero_of_table)));
          sum = V::fnma(shift, V::set(args.block_sums[t * args.blocks + block]), sum);
        }
        totals[t][0] = V::fma(sum, scale, totals[t][0]);
      }
    }
    for (std::size_t t = 0; t < kTokens; ++t) V::store(args.y + t * args.y_stride + panel * kPanelRows, totals[t][0]);
  }
}

#define NIBBLE_ROW(bits, kind) \
  { kind(bits, 1), kind(bits, 4) }
#define NIBBLE_SHARED(bits, tokens) palettes<V, bits, true, tokens>
#define NIBBLE_OWN(bits, tokens) palettes<V, bits, false, tokens>
#define NIBBLE_BLOCKS(bits, tokens) blocks<V, bits, tokens>
#define NIBBLE_HALVES(bits, tokens) blocks<V, bits, tokens, kBlockInputs / 2>
#define NIBBLE_NONE \
  { nullptr, nullptr }
// Up to 4 bits the values of blocks come from a table, be it of integers or of a palette.
#define NIBBLE_WIDTH(bits, ...) \
  { NIBBLE_ROW(bits, NIBBLE_SHARED), NIBBLE_ROW(bits, NIBBLE_OWN), NIBBLE_ROW(bits, NIBBLE_BLOCKS), __VA_ARGS__ }
#define NIBBLE_BLOCK_PALETTES(bits) NIBBLE_ROW(bits, NIBBLE_BLOCKS), NIBBLE_ROW(bits, NIBBLE_HALVES)
template <class V>
constexpr ExactMatvecTable table() {
  return {{NIBBLE_WIDTH(1, NIBBLE_NONE, NIBBLE_NONE), NIBBLE_WIDTH(2, NIBBLE_BLOCK_PALETTES(2)),
           NIBBLE_WIDTH(3, NIBBLE_ROW(3, NIBBLE_BLOCKS), NIBBLE_NONE), NIBBLE_WIDTH(4, NIBBLE_BLOCK_PALETTES(4)),
           NIBBLE_WIDTH(6, NIBBLE_NONE, NIBBLE_NONE), NIBBLE_WIDTH(8, NIBBLE_NONE, NIBBLE_NONE)}};
}
#undef NIBBLE_BLOCK_PALETTES
#undef NIBBLE_WIDTH
#undef NIBBLE_NONE
#undef NIBBLE_HALVES
#undef NIBBLE_BLOCKS
#undef NIBBLE_OWN
#undef NIBBLE_SHARED
#undef NIBBLE_ROW

}  // namespace nibble::quant::exact_matvec
