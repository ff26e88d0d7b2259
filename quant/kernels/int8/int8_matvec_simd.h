#pragma once

#include <type_traits>

#include "quant/kernels/int8/int8_matvec.h"
#include "quant/kernels/simd/code_vectors.h"

// The kernels of int8_matvec.h over a vector type V (see code_vectors.h and exact_matvec_simd.h), which also offers
//            Sums                        16 int32; set_sums(n), add_sums(a, b), floats(sums)
//            small_integers(p)           16 bytes at p as Sums; less_products(s, i, n) = s - i n, |n| < 2^15
//            Inputs                      64 int8: inputs(p), or four_inputs(p), the same four in each lane
//            Entries<kBits>(table)       palettes of up to 64 bytes; bytes(field) = the entries of its codes,
//            Codes<kBits>()              or the codes; what a field has above its low kBits is ignored
//            …::Product                  AnyBytes, or SmallBytes for bytes below 128: dot(s, bytes, x) = s + the sum
//                                        over each lane's four of (byte - kLess) x; `bytes` hold what dot() likes best
//            …::dot_apart(s, bytes, magnitudes, negative)   maybe: the same of |x| and of -1 where x < 0, less the
//                                        sum of those |x|
//            BlockProduct<Product, kBelow16>   see int8_matmul_simd.h
//            quantize_block(x, x8, scale, sum)   32 inputs, as QuantizeActivations
namespace nibble::quant::int8_matvec {

using code_vectors::BlockAhead;
using code_vectors::Unit;
using code_vectors::unroll;

template <class V, int kBits>
[[gnu::always_inline]] inline typename V::template Entries<kBits> entries_of(const Int8MatvecArgs& args,
                                                                             std::size_t panel) {
  constexpr std::size_t kEntries = kBits <= 4 ? 16 : 64;
  const std::size_t index = (args.first_panel + panel) / args.panels_per_table;
  return typename V::template Entries<kBits>(args.tables + index * kEntries);
}

// A product that wants magnitudes and signs of inputs apart: one instruction instead of the two to four that give the
// signs of weights to inputs.
template <class Product>
constexpr bool kTakesApart = requires {
  &Product::dot_apart;
};

// Of bytes and the inputs that `load` takes from what is at their place in each array.
template <class V, class Product, class Load>
[[gnu::always_inline]] inline typename V::Sums product(typename V::Sums sums, typename V::Bytes bytes,
                                                       const Int8MatvecArgs& args, const Load& load) {
  if constexpr (kTakesApart<Product>)
    return Product::dot_apart(sums, bytes, load(args.x_magnitudes), load(args.x_negative));
  else
    return Product::dot(sums, bytes, load(args.x));
}

// The products of block `block` of inputs with bytes less `less`; two accumulators hide some of the latency.
template <class V, int kBits, std::size_t kBlock = kBlockInputs, class Weights>
[[gnu::always_inline]] inline typename V::Sums block_sums(const Weights& weights, const std::uint8_t* codes,
                                                          const Ahead<V>& ahead, const Int8MatvecArgs& args,
                                                          std::size_t block, int less) {
  using Product = typename Weights::Product;
  using InBlock =
      typename V::template BlockProduct<Product, kBits <= 4 && std::is_same_v<Product, typename V::SmallBytes>>;
  constexpr CodeLayout kLayout{kBits, kPanelRows};
  constexpr int kUnits = static_cast<int>(kBlock / kLayout.unit_inputs());
  const std::size_t first = block * kBlock;
  const typename V::Sums none = V::set_sums(0);
  const typename V::Sums start =
      V::set_sums(less * args.x_sums[block] + (kTakesApart<Product> ? args.x_less[block] : 0));
  typename InBlock::Sums sums[2] = {InBlock::begin(start), InBlock::begin(none)};
  unroll<kUnits>([&](auto u) {
    const Unit<V, kBits> unit(codes + u.index * kLayout.unit_bytes(), ahead);
    unroll<Unit<V, kBits>::kFields>([&](auto f) {
      auto& sum = sums[(u.value * Unit<V, kBits>::kFields + f.value) % 2];
      const auto bytes = weights.bytes(unit.template field<f.value>());
      const std::size_t input = first + u.index * kLayout.unit_inputs() + f.index * 4;
      const auto four = [&](const std::int8_t* x) { return V::four_inputs(x + input); };
      sum = product<V, std::conditional_t<kTakesApart<Product>, Product, InBlock>>(sum, bytes, args, four);
    });
  });
  return V::add_sums(InBlock::end(sums[0], start), InBlock::end(sums[1], none));
}

template <class V, int kBits>
void shared_palettes(const Int8MatvecArgs& args) {
  const std::size_t block_bytes = kPanelRows * kBlockInputs * kBits / 8;
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.blocks * block_bytes);
  constexpr int kLess = V::template Entries<kBits>::Product::kLess;
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const auto entries = entries_of<V, kBits>(args, panel);
    auto total = V::zero();
    for (std::size_t block = 0; block < args.blocks; ++block, codes += block_bytes) {
      const auto sums = block_sums<V, kBits>(entries, codes, ahead, args, block, kLess);
      total = V::fma(V::floats(sums), V::set(args.x_scales[block]), total);
    }
    V::store(args.y + panel * kPanelRows, total);
  }
}

template <class V, int kBits, std::size_t kBlock, class Weights>
[[gnu::always_inline]] inline void scaled_blocks(const Int8MatvecArgs& args, const Weights& weights) {
  const std::size_t block_bytes = kPanelRows * kBlock * kBits / 8;
  const int less = Weights::Product::kLess - (args.block_zeros == nullptr ? args.middle : 0);
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.blocks * block_bytes);
  const BlockAhead<V, kBits, kBlock> ahead_of_blocks(args.block_scales, args.block_zeros, args.panels * args.blocks);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    auto total = V::zero();
    for (std::size_t block = 0; block < args.blocks; ++block, codes += block_bytes) {
      auto sums = block_sums<V, kBits, kBlock>(weights, codes, ahead, args, block, less);
      ahead_of_blocks(panel * args.blocks + block);
      const std::size_t at = (panel * args.blocks + block) * kPanelRows;
      if (args.block_zeros != nullptr)
        sums = V::less_products(sums, V::small_integers(args.block_zeros + at), args.x_sums[block]);
      const auto scale = V::mul(V::set(args.x_scales[block]), V::load_half(args.block_scales + at));
      total = V::fma(V::floats(sums), scale, total);
    }
    V::store(args.y + panel * kPanelRows, total);
  }
}

template <class V, int kBits>
void blocks(const Int8MatvecArgs& args) {
  scaled_blocks<V, kBits, kBlockInputs>(args, typename V::template Codes<kBits>{});
}

template <class V, int kBits, std::size_t kBlock>
void block_palettes(const Int8MatvecArgs& args) {
  scaled_blocks<V, kBits, kBlock>(args, typename V::template Entries<kBits>(args.tables));
}

// One row, 64 inputs a field: each lane has the scale of its own four inputs.
template <class V, int kBits>
void single_rows(const Int8MatvecArgs& args) {
  constexpr std::size_t kInputs = CodeLayout{kBits, 1}.unit_inputs();
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.units * args.unit_bytes);
  using Product = typename V::template Entries<kBits>::Product;
  const float less =
      static_cast<float>(Product::kLess) * args.x_total + (kTakesApart<Product> ? args.x_less_total : 0.0f);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const auto entries = entries_of<V, kBits>(args, panel);
    typename V::F totals[2] = {V::zero(), V::zero()};
    for (std::size_t unit = 0; unit < args.units; ++unit, codes += args.unit_bytes) {
      const Unit<V, kBits> loaded(codes, ahead);
      unroll<Unit<V, kBits>::kFields>([&](auto f) {
        const std::size_t input = unit * kInputs + f.index * kVectorBytes;
        const auto sums = product<V, Product>(V::set_sums(0), entries.bytes(loaded.template field<f.value>()), args,
                                              [&](const std::int8_t* x) { return V::inputs(x + input); });
        auto& total = totals[f.value % 2];
        total = V::fma(V::floats(sums), V::load(args.lane_scales + input / 4), total);
      });
    }
    args.y[panel] = V::sum(V::add(totals[0], totals[1])) + less;
  }
}

template <class V>
void quantize(const float* x, std::size_t count, std::int8_t* x8, float* scales, std::int32_t* sums) {
  for (std::size_t block = 0; block < count / kBlockInputs; ++block)
    V::quantize_block(x + block * kBlockInputs, x8 + block * kBlockInputs, scales[block], sums[block]);
}

// A kernel over Weights, Entries or Codes.
template <class Weights>
constexpr Int8MatvecKernel of(Int8Matvec run) {
  return {run, kTakesApart<typename Weights::Product>};
}

#define NIBBLE_PALETTES(kernel, bits, ...) \
  of<typename V::template Entries<bits>>(kernel<V, bits __VA_OPT__(, ) __VA_ARGS__>)
#define NIBBLE_WIDTH(bits, ...)                                                 \
  {                                                                             \
    NIBBLE_PALETTES(shared_palettes, bits), NIBBLE_PALETTES(single_rows, bits), \
        of<typename V::template Codes<bits>>(blocks<V, bits>), __VA_ARGS__      \
  }
#define NIBBLE_BLOCK_PALETTES(bits) \
  NIBBLE_PALETTES(block_palettes, bits, kBlockInputs), NIBBLE_PALETTES(block_palettes, bits, kBlockInputs / 2)
template <class V>
constexpr Int8MatvecTable table(const char* name) {
  constexpr Int8MatvecKernel kNone;
  return {{NIBBLE_WIDTH(1, kNone, kNone),
           NIBBLE_WIDTH(2, NIBBLE_BLOCK_PALETTES(2)),
           NIBBLE_WIDTH(3, NIBBLE_PALETTES(block_palettes, 3, kBlockInputs), kNone),
           NIBBLE_WIDTH(4, NIBBLE_BLOCK_PALETTES(4)),
           NIBBLE_WIDTH(6, kNone, kNone),
           {kNone, kNone, of<typename V::template Codes<8>>(blocks<V, 8>), kNone, kNone}},
          quantize<V>,
          name};
}
#undef NIBBLE_BLOCK_PALETTES
#undef NIBBLE_WIDTH
#undef NIBBLE_PALETTES

}  // namespace nibble::quant::int8_matvec
