#pragma once

#include "quant/kernels/simd/ahead.h"
#include "quant/kernels/simd/code_vectors.h"
#include "quant/kernels/windows/window_kernels.h"

// The kernels of window_kernels.h on bytes over a vector type V (see int8_matvec_simd.h) and a way to cut windows and
// look them up: Cutter(layout, tables)
//               unit(codes, after)     of four inputs; bytes<m>() of it are the lanes of vector m (window_layout.h), as
//                                      V::AnyBytes likes them
namespace nibble::quant::window_int8 {

using code_vectors::unroll;

constexpr int kPairs = 8;

template <class V, class Cutter>
void matvec(const WindowInt8Args& args) {
  using Product = typename V::AnyBytes;
  const WindowLayout layout = args.layout;
  const Cutter cutter(layout, args.tables);
  const Ahead<V> ahead(args.codes, args.panels * args.panel_bytes);
  const std::size_t unit_bytes = layout.unit_bytes();
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const std::uint8_t* codes = args.codes + panel * args.panel_bytes;
    typename V::F totals[kPairs];
    unroll<kPairs>([&](auto m) { totals[m.index] = V::zero(); });
    for (std::size_t half = 0; half < args.halves; ++half) {
      const std::uint8_t *units = codes + layout.units_at(half), *after = codes + layout.after_at(half);
      const std::int8_t* x = args.x + half * kHalfInputs;
      if (half % 2 == 0) ahead(after);
      typename V::Sums sums[kPairs];
      unroll<kPairs>([&](auto m) { sums[m.index] = V::set_sums(Product::kLess * args.x_sums[half]); });
      for (std::size_t u = 0; u < kHalfUnits; ++u, units += unit_bytes) {
        for (std::size_t line = 0; line < unit_bytes; line += 64) ahead(units + line);
        const auto unit = cutter.unit(units, after + u * kUnitInputs);
        const auto inputs = V::four_inputs(x + u * kUnitInputs);
        unroll<kPairs>(
            [&](auto m) { sums[m.index] = Product::dot(sums[m.index], unit.template bytes<m.value>(), inputs); });
      }
      const auto scale = V::set(args.x_scales[half]);
      unroll<kPairs>([&](auto m) { totals[m.index] = V::fma(V::floats(sums[m.index]), scale, totals[m.index]); });
    }
    unroll<kPairs>([&](auto m) { V::store(args.y + panel * kWindowRows + 16 * m.index, totals[m.index]); });
  }
}

template <class V, class Cutter>
void unpack(const WindowLayout& layout, const WindowTables& tables, const std::uint8_t* panel, std::size_t wanted,
            std::size_t first, std::size_t halves, std::uint8_t* bytes) {
  const Cutter cutter(layout, tables);
  unroll<kPairs>([&](auto m) {
    if (m.index != wanted) return;
    for (std::size_t half = first; half < first + halves; ++half) {
      const std::uint8_t *units = panel + layout.units_at(half), *after = panel + layout.after_at(half);
      for (std::size_t u = 0; u < kHalfUnits; ++u, bytes += 64)
        V::store_bytes(bytes,
                       cutter.unit(units + u * layout.unit_bytes(), after + u * kUnitInputs).template bytes<m.value>());
    }
  });
}

template <class V, class Cutter>
constexpr WindowInt8Kernels kernels() {
  return {matvec<V, Cutter>, unpack<V, Cutter>};
}

}  // namespace nibble::quant::window_int8
