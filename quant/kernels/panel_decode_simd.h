#pragma once

#include "quant/kernels/code_vectors.h"
#include "quant/kernels/panel_decode.h"

// The kernels of panel_decode.h over a vector type V (see code_vectors.h and exact_matvec_simd.h; and mul(a, b)).
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

template <class V, int kBits>
void row_palette(const PanelDecodeArgs& args) {
  const typename V::template Lookup<kBits> lookup(args.table);
  const auto scale = V::set(args.row_scale == nullptr ? 1.0f : *args.row_scale);
  const std::uint8_t* codes = args.codes;
  constexpr std::size_t kLayoutInputs = CodeLayout{kBits, 1}.unit_inputs();
  float values[kLayoutInputs];
  for (std::size_t unit = 0; unit < args.units; ++unit, codes += args.unit_bytes) {
    for_each_step<V, kBits>(codes, [&](auto f, auto b, typename V::Bytes v) {
      V::store(values + (f.index * 4 + b.index) * 16, V::mul(lookup(v), scale));
    });
    float* destination = args.destination + unit * kLayoutInputs;
    const std::size_t left = args.cols - unit * kLayoutInputs;
    for (std::size_t j = 0; j < (left < kLayoutInputs ? left : kLayoutInputs); ++j)
      destination[j] = values[j / 64 * 64 + j % 4 * 16 + j % 64 / 4];
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

#define NIBBLE_WIDTH(bits) \
  { shared_palette<V, bits>, row_palette<V, bits>, blocks<V, bits> }
template <class V>
constexpr PanelDecodeTable table() {
  return {{NIBBLE_WIDTH(1), NIBBLE_WIDTH(2), NIBBLE_WIDTH(3), NIBBLE_WIDTH(4), NIBBLE_WIDTH(6), NIBBLE_WIDTH(8)}};
}
#undef NIBBLE_WIDTH

}  // namespace nibble::quant::panel_decode
