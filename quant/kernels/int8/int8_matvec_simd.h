#pragma once

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

// The products of one block of inputs; two accumulators hide some of the latency.
template <class V, int kBits, std::size_t kBlock = kBlockInputs, class Weights>
[[gnu::always_inline]] inline typename V::Sums block_sums(const Weights& weights, const std::uint8_t* codes,
                                                          const Ahead<V>& ahead, const std::int8_t* x, int start) {
  constexpr CodeLayout kLayout{kBits, kPanelRows};
  constexpr int kUnits = static_cast<int>(kBlock / kLayout.unit_inputs());
  typename V::Sums sums[2] = {V::set_sums(start), V::set_sums(0)};
  unroll<kUnits>([&](auto u) {
    const Unit<V, kBits> unit(codes + u.index * kLayout.unit_bytes(), ahead);
    unroll<Unit<V, kBits>::kFields>([&](auto f) {
      auto& sum = sums[(u.value * Unit<V, kBits>::kFields + f.value) % 2];
      sum = Weights::Product::dot(sum, weights.bytes(unit.template field<f.value>()),
                                  V::four_inputs(x + u.index * kLayout.unit_inputs() + f.index * 4));
    });
  });
  return V::add_sums(sums[0], sums[1]);
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
      const auto sums =
          block_sums<V, kBits>(entries, codes, ahead, args.x + block * kBlockInputs, kLess * args.x_sums[block]);
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
      const std::int32_t x_sum = args.x_sums[block];
      auto sums = block_sums<V, kBits, kBlock>(weights, codes, ahead, args.x + block * kBlock, less * x_sum);
      ahead_of_blocks(panel * args.blocks + block);
      const std::size_t at = (panel * args.blocks + block) * kPanelRows;
      if (args.block_zeros != nullptr) sums = V::less_products(sums, V::small_integers(args.block_zeros + at), x_sum);
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
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const auto entries = entries_of<V, kBits>(args, panel);
    typename V::F totals[2] = {V::zero(), V::zero()};
    for (std::size_t unit = 0; unit < args.units; ++unit, codes += args.unit_bytes) {
      const Unit<V, kBits> loaded(codes, ahead);
      unroll<Unit<V, kBits>::kFields>([&](auto f) {
        const std::size_t input = unit * kInputs + f.index * kVectorBytes;
        const auto sums =
            Product::dot(V::set_sums(0), entries.bytes(loaded.template field<f.value>()), V::inputs(args.x + input));
        auto& total = totals[f.value % 2];
        total = V::fma(V::floats(sums), V::load(args.lane_scales + input / 4), total);
      });
    }
    args.y[panel] = V::sum(V::add(totals[0], totals[1])) + static_cast<float>(Product::kLess) * args.x_total;
  }
}

template <class V>
void quantize(const float* x, std::size_t count, std::int8_t* x8, float* scales, std::int32_t* sums) {
  for (std::size_t block = 0; block < count / kBlockInputs; ++block)
    V::quantize_block(x + block * kBlockInputs, x8 + block * kBlockInputs, scales[block], sums[block]);
}

#define NIBBLE_WIDTH(bits, ...) \
  { shared_palettes<V, bits>, single_rows<V, bits>, blocks<V, bits>, __VA_ARGS__ }
#define NIBBLE_BLOCK_PALETTES(bits) block_palettes<V, bits, kBlockInputs>, block_palettes<V, bits, kBlockInputs / 2>
template <class V>
constexpr Int8MatvecTable table(const char* name) {
  return {{NIBBLE_WIDTH(1, nullptr, nullptr),
           NIBBLE_WIDTH(2, NIBBLE_BLOCK_PALETTES(2)),
           NIBBLE_WIDTH(3, block_palettes<V, 3, kBlockInputs>, nullptr),
           NIBBLE_WIDTH(4, NIBBLE_BLOCK_PALETTES(4)),
           NIBBLE_WIDTH(6, nullptr, nullptr),
           {nullptr, nullptr, blocks<V, 8>, nullptr, nullptr}},
          quantize<V>,
          name};
}
#undef NIBBLE_BLOCK_PALETTES
#undef NIBBLE_WIDTH

}  // namespace nibble::quant::int8_matvec
