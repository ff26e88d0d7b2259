#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nibble::model {

/// How the weights of a tensor lie in a GGUF file. The values are the numbers of the format ("ggml type").
enum class BlockType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
};

/// Decodes `count` consecutive blocks at `blocks` (any alignment) to floats. Every value is what the format's
/// arithmetic in float gives, bit for bit: first the scale of a sub-block is formed, then code times scale, then the
/// minimum.
using BlockDecoder = void (*)(const std::byte* blocks, std::size_t count, float* values);

/// One row of the table of types.
struct BlockTypeInfo {
  BlockType type = BlockType::kF32;
  std::string_view name;          ///< "Q4_K"
  std::size_t weights = 1;        ///< per block; a row is a whole number of blocks
  std::size_t bytes = 4;          ///< per block
  BlockDecoder decode = nullptr;  ///< null where the layout is known and its values are not: then a file opens, and
                                  ///< only decoding such a tensor is refused
};

/// The row of `type`.
const BlockTypeInfo& block_type_info(BlockType type);
/// All rows, by number.
std::span<const BlockTypeInfo> block_types();
/// The row with that number; empty for numbers that are unknown or were withdrawn.
std::optional<BlockTypeInfo> find_block_type(std::uint32_t id);
std::optional<BlockTypeInfo> find_block_type(std::string_view name);
/// What to say of a number that find_block_type() does not know: "type 4, Q4_2, which was withdrawn in 2023".
std::string_view withdrawn_block_type(std::uint32_t id);  ///< its name, or empty

/// Throws FormatError naming `what` and the type unless its values can be decoded.
void check_decodable(const BlockTypeInfo& type, std::string_view what);

}  // namespace nibble::model
