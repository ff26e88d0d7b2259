#pragma once

#include "quant/kernels/simd/ahead.h"
#include "quant/kernels/windows/window_kernels.h"

// The kernels of window_kernels.h over a vector type V (see exact_matvec_simd.h) and a way to cut windows and look them
// up:         Decoder(layout, tables)
//             decode(units, after, w)     half a group, 32 inputs, to floats
//
// A half group is decoded into 16 KB of the first-level cache, then multiplied by all tokens.
namespace nibble::quant::window_matvec {

// sums += w (32, 128) times x of kTokens tokens, kVectors vectors of rows at a time.
template <class V, int kTokens, int kVectors>
[[gnu::always_inline]] inline void add_products(const float* w, const float* x, std::size_t x_stride, float* sums,
                                                std::size_t stride) {
  for (std::size_t first = 0; first < kWindowRows; first += 16 * kVectors) {
    typename V::F total[std::size_t{kTokens}][std::size_t{kVectors}];
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < kVectors; ++v)
        total[t][v] = V::load(sums + static_cast<std::size_t>(t) * stride + first + 16 * static_cast<std::size_t>(v));
    for (std::size_t j = 0; j < kHalfInputs; ++j) {
      typename V::F weights[std::size_t{kVectors}];
      for (int v = 0; v < kVectors; ++v)
        weights[v] = V::load(w + j * kWindowRows + first + 16 * static_cast<std::size_t>(v));
      for (int t = 0; t < kTokens; ++t) {
        const auto input = V::set(x[static_cast<std::size_t>(t) * x_stride + j]);
        for (int v = 0; v < kVectors; ++v) total[t][v] = V::fma(weights[v], input, total[t][v]);
      }
    }
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < kVectors; ++v)
        V::store(sums + static_cast<std::size_t>(t) * stride + first + 16 * static_cast<std::size_t>(v), total[t][v]);
  }
}

// kRegisters: how many sums of 16 floats stay in registers.
template <class V, int kRegisters>
[[gnu::noinline]] void multiply_half(const float* w, const float* x, std::size_t x_stride, std::size_t tokens,
                                     float* sums, std::size_t stride) {
  std::size_t t = 0;
  for (; t + 4 <= tokens; t += 4)
    add_products<V, 4, kRegisters / 4>(w, x + t * x_stride, x_stride, sums + t * stride, stride);
  for (; t < tokens; ++t)
    add_products<V, 1, (kRegisters < 8 ? kRegisters : 8)>(w, x + t * x_stride, x_stride, sums + t * stride, stride);
}

template <class V, class Decoder, int kRegisters>
void matvec(const WindowMatvecArgs& args) {
  alignas(64) float w[kHalfInputs * kWindowRows];
  const WindowLayout& layout = args.layout;
  const Decoder decoder(layout, args.tables);
  const Ahead<V> ahead(args.codes, args.panels * args.panel_bytes);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const std::uint8_t* codes = args.codes + panel * args.panel_bytes;
    float* sums = args.y + panel * kWindowRows;
    for (std::size_t t = 0; t < args.tokens; ++t)
      for (std::size_t i = 0; i < kWindowRows; i += 16) V::store(sums + t * args.y_stride + i, V::zero());
    for (std::size_t half = 0; half < args.halves; ++half) {
      const std::uint8_t* units = codes + layout.units_at(half);
      if (half % 2 == 0) ahead(codes + layout.after_at(half));
      for (std::size_t line = 0; line < layout.half_bytes(); line += 64) ahead(units + line);
      decoder.decode(units, codes + layout.after_at(half), w);
      multiply_half<V, kRegisters>(w, args.x + half * kHalfInputs, args.x_stride, args.tokens, sums, args.y_stride);
    }
  }
}

template <class Decoder>
void decode(const WindowLayout& layout, const WindowTables& tables, const std::uint8_t* panel, std::size_t half,
            float* w) {
  Decoder(layout, tables).decode(panel + layout.units_at(half), panel + layout.after_at(half), w);
}

template <class V, class Decoder, int kRegisters>
constexpr WindowKernels kernels() {
  return {matvec<V, Decoder, kRegisters>, decode<Decoder>};
}

}  // namespace nibble::quant::window_matvec
