#include "quant/kernels/simd/int8_tile_avx2.h"
#include "quant/kernels/simd/int8_vector_avx2_vnni.h"
#include "quant/kernels/windows/window_shuffle_avx2.h"

namespace nibble::quant {
namespace {

using V = Int8Tile2x256<Int8VectorVnni2x256>;

}  // namespace

const WindowInt8Kernels kWindowInt8Avx2Vnni[2] = {window_int8::kernels<V, ShuffledBytes<V, 4>>(),
                                                  window_int8::kernels<V, ShuffledBytes<V, 16>>()};

}  // namespace nibble::quant
