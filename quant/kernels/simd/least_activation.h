#pragma once

namespace nibble::quant {

/// Blocks of activations none of which is larger are zeros in int8: 127 over less is not finite. Plain arithmetic only:
/// per-ISA files include this.
constexpr float kLeastActivation = 0x1p-121f;

}  // namespace nibble::quant
