#include "quant/kernels/exact/panel_decode_simd.h"
#include "quant/kernels/simd/vector_scalar.h"

namespace nibble::quant {

const PanelDecodeTable kPanelDecodeScalar = panel_decode::table<VectorScalar>();

}  // namespace nibble::quant
