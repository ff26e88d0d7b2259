#pragma once

#include "quant/kernels/code_vectors.h"
#include "quant/kernels/int8_matmul.h"

// The kernels of int8_matmul.h over a vector type V, as in int8_matvec_simd.h, which also offers
//            kTileTokens                 tokens whose sums fit the registers
//            Entries<kBits>, Codes<kBits>   bytes(field): what dot() multiplies; kSigned: whether these bytes are
//            signed store_bytes(p, v) dot_bytes<kSigned>(s, w, x)    s + the sum over each lane's four bytes of w x
//            add_products(s, a, n)       s + a n, of the low 16 bits of the lanes a and of n, both signed
namespace nibble::quant::int8_matmul {

using code_vectors::Unit;
using code_vectors::unroll;

template <class V, int kBits, class Weights>
[[gnu::always_inline]] inline void decode_units(const Weights& weights, const std::uint8_t* codes, std::size_t units,
                                                std::uint8_t* bytes) {
  for (std::size_t u = 0; u < units; ++u, codes += Unit<V, kBits>::kVectors * kVectorBytes) {
    const Unit<V, kBits> unit(codes);
    unroll<Unit<V, kBits>::kFields>([&](auto f) {
      V::store_bytes(bytes, weights.bytes(unit.template field<f.value>()));
      bytes += kVectorBytes;
    });
  }
}

template <class V, int kBits>
void decode_entries(const std::uint8_t* codes, std::size_t units, const std::uint8_t* table, std::uint8_t* bytes) {
  decode_units<V, kBits>(typename V::template Entries<kBits>(table), codes, units, bytes);
}

template <class V, int kBits>
void decode_codes(const std::uint8_t* codes, std::size_t units, const std::uint8_t*, std::uint8_t* bytes) {
  decode_units<V, kBits>(typename V::template Codes<kBits>(), codes, units, bytes);
}

template <class V, bool kSigned, bool kScaled, bool kZeros>
[[gnu::always_inline]] inline void multiply_tile(const Int8MatmulArgs& args) {
  constexpr int kTokens = V::kTileTokens;
  constexpr std::size_t kVectors = kBlockInputs / 4;
  typename V::F totals[static_cast<std::size_t>(kTokens)];
  unroll<kTokens>([&](auto t) { totals[t.value] = V::zero(); });
  const std::uint8_t* weights = args.weights;
  const std::int8_t* x = args.x;
  for (std::size_t block = 0; block < args.blocks; ++block) {
    typename V::Bytes w[kVectors], zeros{};
    for (std::size_t i = 0; i < kVectors; ++i) w[i] = V::load_bytes(weights + i * kVectorBytes);
    typename V::F scales{};
    if constexpr (kScaled) scales = V::load(args.scales + block * kPanelRows);
    if constexpr (kZeros) zeros = V::load_bytes(reinterpret_cast<const std::uint8_t*>(args.zeros + block * kPanelRows));
    unroll<kTokens>([&](auto t) {
      const std::size_t at = block * kTokens + t.index;
      typename V::Sums sums = V::set_sums(args.starts[at]);
      for (std::size_t i = 0; i < kVectors; ++i)
        sums = V::template dot_bytes<kSigned>(sums, w[i], V::four_inputs(x + t.index * kBlockInputs + 4 * i));
      if constexpr (kZeros) sums = V::add_products(sums, zeros, args.x_sums[at]);
      typename V::F scale = V::set(args.x_scales[at]);
      if constexpr (kScaled) scale = V::mul(scale, scales);
      totals[t.value] = V::fma(V::floats(sums), scale, totals[t.value]);
    });
    weights += kVectors * kVectorBytes;
    x += kTokens * kBlockInputs;
  }
  unroll<kTokens>([&](auto t) { V::store(args.y + t.index * kPanelRows, totals[t.value]); });
}

template <class V, bool kSigned>
void multiply_palettes(const Int8MatmulArgs& args) {
  multiply_tile<V, kSigned, false, false>(args);
}

template <class V, bool kSigned>
void multiply_blocks(const Int8MatmulArgs& args) {
  if (args.zeros != nullptr)
    multiply_tile<V, kSigned, true, true>(args);
  else
    multiply_tile<V, kSigned, true, false>(args);
}

template <class V, int kBits>
constexpr Int8Width palettes() {
  using Entries = typename V::template Entries<kBits>;
  return {decode_entries<V, kBits>, multiply_palettes<V, Entries::kSigned>, Entries::kLess};
}

template <class V, int kBits>
constexpr Int8Width blocks() {
  using Codes = typename V::template Codes<kBits>;
  return {decode_codes<V, kBits>, multiply_blocks<V, Codes::kSigned>, Codes::kLess};
}

template <class V>
constexpr Int8MatmulTable table() {
  static_assert(V::kTileTokens <= kMostTileTokens);
  return {{{palettes<V, 1>(), blocks<V, 1>()},
           {palettes<V, 2>(), blocks<V, 2>()},
           {palettes<V, 3>(), blocks<V, 3>()},
           {palettes<V, 4>(), blocks<V, 4>()},
           {palettes<V, 6>(), blocks<V, 6>()},
           {{}, blocks<V, 8>()}},
          V::kTileTokens};
}

}  // namespace nibble::quant::int8_matmul
