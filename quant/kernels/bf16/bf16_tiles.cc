#include "quant/kernels/bf16/bf16_tiles.h"

#include "core/machine/isa.h"

namespace nibble::quant {

const Bf16TileKernels* active_bf16_tiles() {
  return choose_variant<const Bf16TileKernels>({.scalar = nullptr, .amx = NIBBLE_AMX_VARIANT(&kBf16TilesAmx)});
}

}  // namespace nibble::quant
