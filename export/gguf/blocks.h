#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "export/exporter.h"
#include "model/gguf/blocks/block_types.h"

namespace nibble::exporting {

/// How GGUF holds a storage: integers times a float16 scale per block of 32 inputs, so the narrowest of Q4_0 (code less
/// zero point from -8 to 7), Q5_0 (-16 to 15) and Q8_0 (-128 to 127) that holds all that codes of so many bits with
/// such zero points can mean. Groups of several blocks, and whole rows, have their scale repeated. Block palettes:
/// IQ4_NL with float16 scales, MXFP4 with E8M0. Super-blocks of 256 inputs: Q3_K for 3 bits in blocks of 16, IQ4_XS for
/// the palette of IQ4_NL in blocks of 32. Nothing is rounded.
struct GgufFit {
  Fit fit;
  model::BlockType type = model::BlockType::kQ4_0;  ///< where fit says exact
};
GgufFit gguf_fit(const Storage& storage);

/// The type of floats that holds every value of `parts` as it is; float16 for coded ones.
model::BlockType gguf_float_type(std::span<const ExportPart* const> parts);

/// Row `row` of `part`, which is coded, as blocks of `type` at `blocks`. `scratch` is kept between calls. Throws
/// FormatError for a zero point that no code of its width needs, and for scales of a super-block that are no multiples
/// of a step.
struct BlockScratch {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint8_t> exponents;
  std::vector<std::int8_t> multiples;
};
void encode_coded_row(const ExportPart& part, std::size_t row, model::BlockType type, std::span<std::byte> blocks,
                      BlockScratch& scratch);

}  // namespace nibble::exporting
