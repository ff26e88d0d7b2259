#include "model/gguf/blocks/block_types.h"

#include <array>
#include <cstring>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "model/gguf/blocks/block_decode.h"

namespace nibble::model {
namespace decode {

void f32(const std::byte* blocks, std::size_t count, float* values) {
  convert_to_f32(DType::kF32, blocks, count, values);
}
void f16(const std::byte* blocks, std::size_t count, float* values) {
  convert_to_f32(DType::kF16, blocks, count, values);
}
void bf16(const std::byte* blocks, std::size_t count, float* values) {
  convert_to_f32(DType::kBF16, blocks, count, values);
}
void f64(const std::byte* blocks, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0.0;
    std::memcpy(&value, blocks + i * sizeof value, sizeof value);
    values[i] = static_cast<float>(value);
  }
}

}  // namespace decode

namespace {

constexpr std::array<BlockTypeInfo, 34> kBlockTypes{{
    {BlockType::kF32, "F32", 1, 4, decode::f32},
    {BlockType::kF16, "F16", 1, 2, decode::f16},
    {BlockType::kQ4_0, "Q4_0", 32, 18, decode::q4_0},
    {BlockType::kQ4_1, "Q4_1", 32, 20, decode::q4_1},
    {BlockType::kQ5_0, "Q5_0", 32, 22, decode::q5_0},
    {BlockType::kQ5_1, "Q5_1", 32, 24, decode::q5_1},
    {BlockType::kQ8_0, "Q8_0", 32, 34, decode::q8_0},
    {BlockType::kQ8_1, "Q8_1", 32, 40, nullptr},
    {BlockType::kQ2_K, "Q2_K", 256, 84, decode::q2_k},
    {BlockType::kQ3_K, "Q3_K", 256, 110, decode::q3_k},
    {BlockType::kQ4_K, "Q4_K", 256, 144, decode::q4_k},
    {BlockType::kQ5_K, "Q5_K", 256, 176, decode::q5_k},
    {BlockType::kQ6_K, "Q6_K", 256, 210, decode::q6_k},
    {BlockType::kQ8_K, "Q8_K", 256, 292, decode::q8_k},
    {BlockType::kIQ2_XXS, "IQ2_XXS", 256, 66, decode::iq2_xxs},
    {BlockType::kIQ2_XS, "IQ2_XS", 256, 74, decode::iq2_xs},
    {BlockType::kIQ3_XXS, "IQ3_XXS", 256, 98, decode::iq3_xxs},
    {BlockType::kIQ1_S, "IQ1_S", 256, 50, decode::iq1_s},
    {BlockType::kIQ4_NL, "IQ4_NL", 32, 18, decode::iq4_nl},
    {BlockType::kIQ3_S, "IQ3_S", 256, 110, decode::iq3_s},
    {BlockType::kIQ2_S, "IQ2_S", 256, 82, decode::iq2_s},
    {BlockType::kIQ4_XS, "IQ4_XS", 256, 136, decode::iq4_xs},
    {BlockType::kI8, "I8", 1, 1, nullptr},
    {BlockType::kI16, "I16", 1, 2, nullptr},
    {BlockType::kI32, "I32", 1, 4, nullptr},
    {BlockType::kI64, "I64", 1, 8, nullptr},
    {BlockType::kF64, "F64", 1, 8, decode::f64},
    {BlockType::kIQ1_M, "IQ1_M", 256, 56, decode::iq1_m},
    {BlockType::kBF16, "BF16", 1, 2, decode::bf16},
    {BlockType::kTQ1_0, "TQ1_0", 256, 54, decode::tq1_0},
    {BlockType::kTQ2_0, "TQ2_0", 256, 66, decode::tq2_0},
    {BlockType::kMXFP4, "MXFP4", 32, 17, decode::mxfp4},
    {BlockType::kNVFP4, "NVFP4", 64, 36, decode::nvfp4},
    {BlockType::kQ1_0, "Q1_0", 128, 18, nullptr},
}};

}  // namespace

std::span<const BlockTypeInfo> block_types() { return kBlockTypes; }

std::optional<BlockTypeInfo> find_block_type(std::uint32_t id) {
  for (const BlockTypeInfo& row : kBlockTypes)
    if (static_cast<std::uint32_t>(row.type) == id) return row;
  return std::nullopt;
}

std::optional<BlockTypeInfo> find_block_type(std::string_view name) {
  for (const BlockTypeInfo& row : kBlockTypes)
    if (row.name == name) return row;
  return std::nullopt;
}

const BlockTypeInfo& block_type_info(BlockType type) {
  for (const BlockTypeInfo& row : kBlockTypes)
    if (row.type == type) return row;
  throw InvalidArgument(fmt::format("GGUF: no block type has the number {}", static_cast<std::uint32_t>(type)));
}

std::string_view withdrawn_block_type(std::uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return "";
  }
}

void check_decodable(const BlockTypeInfo& type, std::string_view what) {
  if (type.decode != nullptr) return;
  std::string known;
  for (const BlockTypeInfo& row : kBlockTypes)
    if (row.decode != nullptr) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  throw FormatError(
      fmt::format("{} is stored as {}, which is not decoded; decoded are {}. Hint: let llama.cpp's "
                  "quantizer write the model as Q8_0 or F16 from its source",
                  what, type.name, known));
}

}  // namespace nibble::model
