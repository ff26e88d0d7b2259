#include "quant/kernels/simd/int8_vector_avx512.h"
#include "quant/kernels/windows/window_shuffle_avx512.h"

namespace nibble::quant {
namespace {

template <int kStep, class Entries>
constexpr WindowInt8Kernels kShuffled =
    window_int8::kernels<Int8Vector512, ShuffledWindows512<Int8Vector512, kStep, Entries>>();

}  // namespace

const WindowInt8Kernels kWindowInt8Avx512[4][2] = {{kShuffled<1, ShuffledWindow64>, kShuffled<1, ShuffledWindow256>},
                                                   {kShuffled<2, ShuffledWindow64>, kShuffled<2, ShuffledWindow256>},
                                                   {kShuffled<3, ShuffledWindow64>, kShuffled<3, ShuffledWindow256>},
                                                   {kShuffled<4, ShuffledWindow64>, kShuffled<4, ShuffledWindow256>}};

}  // namespace nibble::quant
