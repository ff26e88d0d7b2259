#include "quant/kernels/panel_decode.h"

#include "core/isa.h"
#include "quant/kernels/code_layout.h"

namespace nibble::quant {
namespace {

const PanelDecodeTable& panel_decode_table() {
  switch (active_isa()) {
#if NIBBLE_HAVE_X86_AVX512
    case Isa::kAvx512:
      return kPanelDecodeAvx512;
#endif
#if NIBBLE_HAVE_X86_AVX2
    case Isa::kAvx2:
      return kPanelDecodeAvx2;
#endif
    default:
      return kPanelDecodeScalar;
  }
}

}  // namespace

PanelDecode select_panel_decode(unsigned bits, PackedKind kind) {
  return panel_decode_table().by_width[width_index(bits)][static_cast<std::size_t>(kind)];
}

}  // namespace nibble::quant
