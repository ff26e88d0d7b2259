#include "quant/kernels/simd/code_vectors.h"
#include "quant/kernels/windows/window_cut_vbmi.h"
#include "quant/kernels/windows/window_matvec_simd.h"

namespace nibble::quant {
namespace {

using code_vectors::unroll;

// The four bytes of floats are looked up apart and interleaved: of 64 codes, as many shuffles as 64 entries of a table
// of floats would take, and half as many as 256.
template <int kStep, class Entries>
struct VbmiDecoder {
  Entries planes[4];
  VbmiDecoder(const WindowLayout&, const WindowTables& with)
      : planes{Entries(with.planes), Entries(with.planes + 256), Entries(with.planes + 512),
               Entries(with.planes + 768)} {}

  void decode(const std::uint8_t* units, const std::uint8_t* after, float* w) const {
    for (std::size_t u = 0; u < kHalfUnits; ++u, w += kUnitInputs * kWindowRows) {
      const Vbmi<kStep> unit(units + u * 64 * kStep, after + u * kUnitInputs);
      unroll<4>([&](auto g) {
        const __m512i a = unit.template codes<2 * g.value, WindowOrder::kInputs>(),
                      b = unit.template codes<2 * g.value + 1, WindowOrder::kInputs>();
        // Four rows of each input, of chunks 0 2 4 6 and 1 3 5 7.
        store_fours(_mm512_unpacklo_epi16(a, b), w + 16 * g.index);
        store_fours(_mm512_unpackhi_epi16(a, b), w + 64 + 16 * g.index);
      });
    }
  }

  void store_fours(__m512i codes, float* w) const {
    const auto code = Entries::prepare(codes);
    const __m512i p0 = planes[0](code), p1 = planes[1](code), p2 = planes[2](code), p3 = planes[3](code);
    const __m512i low0 = _mm512_unpacklo_epi8(p0, p1), high0 = _mm512_unpacklo_epi8(p2, p3),
                  low1 = _mm512_unpackhi_epi8(p0, p1), high1 = _mm512_unpackhi_epi8(p2, p3);
    _mm512_store_si512(w, _mm512_unpacklo_epi16(low0, high0));
    _mm512_store_si512(w + kWindowRows, _mm512_unpackhi_epi16(low0, high0));
    _mm512_store_si512(w + 2 * kWindowRows, _mm512_unpacklo_epi16(low1, high1));
    _mm512_store_si512(w + 3 * kWindowRows, _mm512_unpackhi_epi16(low1, high1));
  }
};

template <int kStep, class Entries>
constexpr WindowKernels kVbmi = window_matvec::kernels<Vector512, VbmiDecoder<kStep, Entries>, 16>();

}  // namespace

const WindowKernels kWindowAvx512Vbmi[4][2] = {{kVbmi<1, Entries64>, kVbmi<1, Entries256>},
                                               {kVbmi<2, Entries64>, kVbmi<2, Entries256>},
                                               {kVbmi<3, Entries64>, kVbmi<3, Entries256>},
                                               {kVbmi<4, Entries64>, kVbmi<4, Entries256>}};

}  // namespace nibble::quant
