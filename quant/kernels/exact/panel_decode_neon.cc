#include "quant/kernels/exact/panel_decode_simd.h"
#include "quant/kernels/simd/vector_neon.h"

namespace nibble::quant {

const PanelDecodeTable kPanelDecodeNeon = panel_decode::table<Vector4x128>();

}  // namespace nibble::quant
