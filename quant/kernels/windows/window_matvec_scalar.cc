#include "quant/kernels/simd/vector_scalar.h"
#include "quant/kernels/windows/window_matvec_simd.h"

// Windows one at a time, for every processor and every order of bytes.
namespace nibble::quant {
namespace {

std::uint64_t window_word(const std::uint8_t* p) { return std::uint64_t{p[0]} | std::uint64_t{p[1]} << 8; }

// visit(input, row, code) for the four inputs of a unit.
template <class Visit>
void for_each_window(const WindowLayout& layout, const std::uint8_t* unit, const std::uint8_t* after,
                     const Visit& visit) {
  const unsigned own = 16 * layout.step;
  const std::uint64_t mask = layout.entries() - 1;
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    for (std::size_t t = 0; t < kUnitInputs; ++t) {
      const std::size_t at = 8 * chunk + 2 * t;
      std::uint64_t bits = 0;
      for (unsigned v = 0; v < layout.step; ++v) bits |= window_word(unit + 64 * std::size_t{v} + at) << 16 * v;
      const std::uint64_t next = chunk + 1 < kChunks ? window_word(unit + at + 8) : std::uint64_t{after[t]};
      for (std::size_t r = 0; r < kChunkRows; ++r) {
        const unsigned first = layout.step * static_cast<unsigned>(r);
        std::uint64_t code = bits >> first;
        if (first + layout.bits > own) code |= next << (own - first);
        visit(t, chunk * kChunkRows + r, static_cast<std::size_t>(code & mask));
      }
    }
  }
}

struct PlainDecoder {
  WindowLayout layout;
  WindowTables tables;
  PlainDecoder(const WindowLayout& of, const WindowTables& with) : layout(of), tables(with) {}
  void decode(const std::uint8_t* units, const std::uint8_t* after, float* w) const {
    for (std::size_t u = 0; u < kHalfUnits; ++u, w += kUnitInputs * kWindowRows)
      for_each_window(layout, units + u * layout.unit_bytes(), after + u * kUnitInputs,
                      [&](std::size_t t, std::size_t row, std::size_t code) {
                        w[t * kWindowRows + float_place(row)] = tables.entries[code];
                      });
  }
};

void plain_int8_matvec(const WindowInt8Args& args) {
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const std::uint8_t* codes = args.codes + panel * args.panel_bytes;
    float* y = args.y + panel * kWindowRows;
    for (std::size_t i = 0; i < kWindowRows; ++i) y[i] = 0.0f;
    for (std::size_t half = 0; half < args.halves; ++half) {
      std::int32_t sums[kWindowRows] = {};
      const std::int8_t* x = args.x + half * kHalfInputs;
      for (std::size_t u = 0; u < kHalfUnits; ++u, x += kUnitInputs)
        for_each_window(args.layout, codes + args.layout.units_at(half) + u * args.layout.unit_bytes(),
                        codes + args.layout.after_at(half) + u * kUnitInputs,
                        [&](std::size_t t, std::size_t row, std::size_t code) {
                          sums[byte_place(row)] += args.tables.bytes[code] * x[t];
                        });
      for (std::size_t i = 0; i < kWindowRows; ++i) y[i] += static_cast<float>(sums[i]) * args.x_scales[half];
    }
  }
}

void plain_unpack(const WindowLayout& layout, const WindowTables& tables, const std::uint8_t* panel, std::size_t wanted,
                  std::size_t first, std::size_t halves, std::uint8_t* bytes) {
  for (std::size_t half = first; half < first + halves; ++half)
    for (std::size_t u = 0; u < kHalfUnits; ++u, bytes += 64)
      for_each_window(layout, panel + layout.units_at(half) + u * layout.unit_bytes(),
                      panel + layout.after_at(half) + u * kUnitInputs,
                      [&](std::size_t t, std::size_t row, std::size_t code) {
                        const std::size_t place = byte_place(row);
                        if (place / 16 == wanted) bytes[place % 16 * 4 + t] = tables.bytes[code];
                      });
}

}  // namespace

const WindowKernels kWindowScalar = window_matvec::kernels<VectorScalar, PlainDecoder, 4>();
const WindowInt8Kernels kWindowInt8Scalar = {plain_int8_matvec, plain_unpack};

}  // namespace nibble::quant
