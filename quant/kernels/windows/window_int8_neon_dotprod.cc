#include "quant/kernels/simd/int8_tile_neon.h"
#include "quant/kernels/simd/int8_vector_neon_dotprod.h"
#include "quant/kernels/windows/window_table_neon.h"

namespace nibble::quant {
namespace {

using V = Int8Tile4x128<Int8Vector4x128<SignedDot>, 6>;

}  // namespace

const WindowInt8Kernels kWindowInt8NeonDotprod[2] = {window_int8::kernels<V, TableBytes<V, 4>>(),
                                                     window_int8::kernels<V, TableBytes<V, 16>>()};

}  // namespace nibble::quant
