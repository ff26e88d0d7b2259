#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/gguf/blocks/block_types.h"

namespace nibble::model {

/// Block types that can be written from codes, scales and minimums: nothing is rounded, so what a reader decodes is
/// what the codes mean. All have 32 weights per block.
struct CodeBlockType {
  BlockType type = BlockType::kQ4_0;
  unsigned codes = 16;       ///< a code is below this
  unsigned zero = 8;         ///< value = (code - zero) scale; IQ4_NL, MXFP4: value = table[code] scale, and zero is 0
  bool has_minimum = false;  ///< value = code scale + minimum
};

/// Q4_0 (16 codes, zero 8), Q4_1 (16, minimum), Q5_0 (32, zero 16), Q5_1 (32, minimum), Q8_0 (256, zero 128), IQ4_NL
/// (16, the table). Null for other types.
const CodeBlockType* find_code_block_type(BlockType type);

/// Writes `codes.size() / 32` blocks of `type` at `blocks`. One scale, and where the type has them one minimum, per
/// block, as bits of binary16; scales may be negative. Throws InvalidArgument unless the sizes fit, every code is below
/// the type's number of codes, and minimums are there exactly for the types that have them.
void encode_blocks(BlockType type, std::span<const std::uint8_t> codes, std::span<const std::uint16_t> scales,
                   std::span<const std::uint16_t> minimums, std::span<std::byte> blocks);

/// MXFP4: `codes` are E2M1 (bit 3 the sign), `exponents` E8M0, one per block; value = e2m1(code) 2^(exponent - 127).
void encode_mxfp4_blocks(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> exponents,
                         std::span<std::byte> blocks);

/// Q3_K and IQ4_XS: blocks of 256 weights, whose scales are whole multiples of a step. `codes` as in encode_blocks()
/// (Q3_K: value = (code - 4) scale), `multiples` -32 to 31 for each 16 (IQ4_XS: 32) weights, `steps` as bits of
/// binary16, one per block. Throws InvalidArgument for other types, sizes, codes and multiples.
void encode_super_blocks(BlockType type, std::span<const std::uint8_t> codes, std::span<const std::int8_t> multiples,
                         std::span<const std::uint16_t> steps, std::span<std::byte> blocks);

/// Values as F32, F16 or BF16 at `blocks`. Throws InvalidArgument for other types and sizes, and, naming the first such
/// value, where `values` are not exactly representable: rounding is for the caller to decide.
void encode_floats(BlockType type, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace nibble::model
