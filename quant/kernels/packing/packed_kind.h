#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::quant {

/// What the rows of a packed weight have in common; decides which kernel multiplies them.
enum class PackedKind : std::uint8_t {
  kSharedPalette,     ///< R = 16, one palette per panel
  kRowPalette,        ///< R = 1, any palette per row
  kBlocks,            ///< R = 16, integers with a scale (and zero point) per row and 32 inputs
  kBlockPalette,      ///< R = 16, one palette, a scale per row and 32 inputs; codes of 2 to 4 bits
  kHalfBlockPalette,  ///< the same with a scale per row and 16 inputs; codes of 2 and 4 bits
};
constexpr std::size_t kPackedKinds = 5;

/// Inputs that share a scale.
constexpr std::size_t inputs_per_block(PackedKind kind) { return kind == PackedKind::kHalfBlockPalette ? 16 : 32; }

}  // namespace nibble::quant
