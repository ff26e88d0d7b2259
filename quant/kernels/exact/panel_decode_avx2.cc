#include "quant/kernels/exact/panel_decode_simd.h"
#include "quant/kernels/simd/vector_avx2.h"

namespace nibble::quant {

const PanelDecodeTable kPanelDecodeAvx2 = panel_decode::table<Vector2x256>();

}  // namespace nibble::quant
