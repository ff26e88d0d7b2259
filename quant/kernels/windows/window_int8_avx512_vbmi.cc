#include "quant/kernels/simd/code_vectors.h"
#include "quant/kernels/simd/int8_vector_avx512_vbmi.h"
#include "quant/kernels/windows/window_cut_vbmi.h"
#include "quant/kernels/windows/window_int8_simd.h"

namespace nibble::quant {
namespace {

template <int kStep, class Entries>
struct VbmiBytes {
  Entries entries;
  VbmiBytes(const WindowLayout&, const WindowTables& tables) : entries(tables.bytes) {}

  struct Unit {
    Vbmi<kStep> words;
    const Entries& entries;
    template <int kPair>
    [[gnu::always_inline]] __m512i bytes() const {
      return entries(Entries::prepare(words.template codes<kPair, WindowOrder::kRows>()));
    }
  };
  [[gnu::always_inline]] Unit unit(const std::uint8_t* codes, const std::uint8_t* after) const {
    return {Vbmi<kStep>(codes, after), entries};
  }
};

template <int kStep, class Entries>
constexpr WindowInt8Kernels kVbmi8 = window_int8::kernels<Int8VectorVbmi512, VbmiBytes<kStep, Entries>>();

}  // namespace

const WindowInt8Kernels kWindowInt8Avx512Vbmi[4][2] = {{kVbmi8<1, Entries64>, kVbmi8<1, Entries256>},
                                                       {kVbmi8<2, Entries64>, kVbmi8<2, Entries256>},
                                                       {kVbmi8<3, Entries64>, kVbmi8<3, Entries256>},
                                                       {kVbmi8<4, Entries64>, kVbmi8<4, Entries256>}};

}  // namespace nibble::quant
