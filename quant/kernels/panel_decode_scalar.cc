#include "quant/kernels/panel_decode_simd.h"
#include "quant/kernels/vector_scalar.h"

namespace nibble::quant {

const PanelDecodeTable kPanelDecodeScalar = panel_decode::table<VectorScalar>();

}  // namespace nibble::quant
