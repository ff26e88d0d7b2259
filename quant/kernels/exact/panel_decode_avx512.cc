#include "quant/kernels/exact/panel_decode_simd.h"
#include "quant/kernels/simd/vector_avx512.h"

namespace nibble::quant {

const PanelDecodeTable kPanelDecodeAvx512 = panel_decode::table<Vector512>();

}  // namespace nibble::quant
