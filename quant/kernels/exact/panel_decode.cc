#include "quant/kernels/exact/panel_decode.h"

#include "core/machine/isa.h"
#include "quant/kernels/packing/code_layout.h"

namespace nibble::quant {
namespace {

const PanelDecodeTable& panel_decode_table() {
  static const PanelDecodeTable& table =
      *choose_variant(&kPanelDecodeScalar, NIBBLE_AVX2_VARIANT(&kPanelDecodeAvx2),
                      NIBBLE_AVX512_VARIANT(&kPanelDecodeAvx512), NIBBLE_NEON_VARIANT(&kPanelDecodeNeon));
  return table;
}

}  // namespace

PanelDecode select_panel_decode(unsigned bits, PackedKind kind) {
  return panel_decode_table().by_width[width_index(bits)][static_cast<std::size_t>(kind)];
}

}  // namespace nibble::quant
