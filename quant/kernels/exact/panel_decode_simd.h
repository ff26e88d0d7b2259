#pragma once

#include "quant/kernels/exact/panel_decode.h"
#include "quant/kernels/simd/code_vectors.h"

// The kernels of panel_decode.h over a vector type V (see code_vectors.h and exact_matvec_simd.h), which also offers
//            mul(a, b)
//            store_bytes(p, v)           64 bytes
//            widen_bytes(p)              16 bytes, one in each lane
namespace nibble::quant::panel_decode {

using code_vectors::Unit;
using code_vectors::unroll;

// Calls visit(first input within the unit, lanes of shifted codes) for each step of a unit; R = 16: one input a step.
template <class V, int kBits, class Visit>
[[gnu::always_inline]] inline void for_each_step(const std::uint8_t* codes, const Visit& visit) {
  const Unit<V, kBits> unit(codes);
  unroll<Unit<V, kBits>::kFields>([&](auto f) {
    const auto field = unit.template field<f.value>();
    unroll<4>([&](auto b) { visit(f, b, code_vectors::shifted_right<V, 8 * b.value>(field)); });
  });
}

// Stores the weights of 16 rows at one input; a panel at the end of a matrix may have fewer.
template <class V>
[[gnu::always_inline]] inline void put(const PanelDecodeArgs& args, std::size_t input, typename V::F w) {
  if (input >= args.cols) return;
  float* destination = args.destination + input * args.stride;
  if (args.rows == kPanelRows) return V::store(destination, w);
  float all[kPanelRows];
  V::store(all, w);
  for (std::size_t r = 0; r < args.rows; ++r) destination[r] = all[r];
}

template <class V, int kBits>
void shared_palette(const PanelDecodeArgs& args) {
  const typename V::template Lookup<kBits> lookup(args.table);
  float scales[kPanelRows];
  for (std::size_t r = 0; r < kPanelRows; ++r)
    scales[r] = args.row_scale == nullptr ? 1.0f : r < args.rows ? args.row_scale[r] : 0.0f;
  const auto scale = V::load(scales);
  const std::uint8_t* codes = args.codes;
  constexpr std::size_t kInputs = CodeLayout{kBits, kPanelRows}.unit_inputs();
  for (std::size_t unit = 0; unit < args.units; ++unit, codes += args.unit_bytes)
    for_each_step<V, kBits>(codes, [&](auto f, auto b, typename V::Bytes v) {
      put<V>(args, unit * kInputs + f.index * 4 + b.index, V::mul(lookup(v), scale));
    });
}

// The bytes of a field are in the order of its 64 inputs: widened 16 at a time, they look up 16 neighbours.
template <class V, int kBits>
void row_palette(const PanelDecodeArgs& args) {
  const typename V::template Lookup<kBits> lookup(args.table);
  const auto scale = V::set(args.row_scale == nullptr ? 1.0f : *args.row_scale);
  const std::uint8_t* codes = args.codes;
  std::size_t input = 0;
  for (std::size_t u = 0; u < args.units; ++u, codes += args.unit_bytes) {
    const Unit<V, kBits> unit(codes);
    unroll<Unit<V, kBits>::kFields>([&](auto f) {
      std::uint8_t field[kVectorBytes];
      V::store_bytes(field, unit.template field<f.value>());
      for (std::size_t i = 0; i < kVectorBytes; i += 16, input += 16) {
        const auto w = V::mul(lookup(V::widen_bytes(field + i)), scale);
        if (input + 16 <= args.cols) {
          V::store(args.destination + input, w);
        } else if (input < args.cols) {
          float last[16];
          V::store(last, w);
          __builtin_memcpy(args.destination + input, last, (args.cols - input) * sizeof(float));
        }
      }
    });
  }
}

template <class V, int kBits>
void blocks(const PanelDecodeArgs& args) {
  constexpr std::size_t kInputs = CodeLayout{kBits, kPanelRows}.unit_inputs(), kUnits = kBlockInputs / kInputs;
  const std::uint8_t* codes = args.codes;
  const auto middle = V::set(static_cast<float>(args.zero_of_table));
  for (std::size_t block = 0; block < args.units / kUnits; ++block) {
    const auto scale = V::load_half(args.block_scales + block * kPanelRows);
    const auto zero = args.block_zeros == nullptr ? middle : V::load_small(args.block_zeros + block * kPanelRows);
    for (std::size_t unit = 0; unit < kUnits; ++unit, codes += args.unit_bytes)
      for_each_step<V, kBits>(codes, [&](auto f, auto b, typename V::Bytes v) {
        put<V>(args, block * kBlockInputs + unit * kInputs + f.index * 4 + b.index,
               V::mul(V::sub(V::template integers<kBits>(v), zero), scale));
      });
  }
}

template <class V, int kBits, std::size_t kBlock>
void block_palette(const PanelDecodeArgs& args) {
  constexpr std::size_t kInputs = CodeLayout{kBits, kPanelRows}.unit_inputs(), kUnits = kBlock / kInputs;
  const typename V::template Lookup<kBits> lookup(args.table);
  float row_scales[kPanelRows];
  for (std::size_t r = 0; r < kPanelRows; ++r)
    row_scales[r] = args.row_scale == nullptr ? 1.0f : r < args.rows ? args.row_scale[r] : 0.0f;
  const auto row_scale = V::load(row_scales);
  const std::uint8_t* codes = args.codes;
  for (std::size_t block = 0; block < args.units / kUnits; ++block) {
    const auto scale = V::mul(V::load_half(args.block_scales + block * kPanelRows), row_scale);
    for (std::size_t unit = 0; unit < kUnits; ++unit, codes += args.unit_bytes)
      for_each_step<V, kBits>(codes, [&](auto f, auto b, typename V::Bytes v) {
        put<V>(args, block * kBlock + unit * kInputs + f.index * 4 + b.index, V::mul(lookup(v), scale));
      });
  }
}

#define NIBBLE_WIDTH(bits, ...) \
  { shared_palette<V, bits>, row_palette<V, bits>, blocks<V, bits>, __VA_ARGS__ }
#define NIBBLE_BLOCK_PALETTES(bits) block_palette<V, bits, kBlockInputs>, block_palette<V, bits, kBlockInputs / 2>
template <class V>
constexpr PanelDecodeTable table() {
  return {{NIBBLE_WIDTH(1, nullptr, nullptr), NIBBLE_WIDTH(2, NIBBLE_BLOCK_PALETTES(2)),
           NIBBLE_WIDTH(3, block_palette<V, 3, kBlockInputs>, nullptr), NIBBLE_WIDTH(4, NIBBLE_BLOCK_PALETTES(4)),
           NIBBLE_WIDTH(6, nullptr, nullptr), NIBBLE_WIDTH(8, nullptr, nullptr)}};
}
#undef NIBBLE_BLOCK_PALETTES
#undef NIBBLE_WIDTH

}  // namespace nibble::quant::panel_decode
