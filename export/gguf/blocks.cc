#include "export/gguf/blocks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "model/gguf/blocks/block_encode.h"
#include "model/gguf/blocks/super_blocks.h"
#include "quant/format/codes.h"

namespace nibble::exporting {
namespace {

using model::BlockType;
using model::kLeastMultiple;
using model::kMostMultiple;
using model::kSuperBlock;

constexpr std::size_t kBlock = 32;

/// The type of super-blocks with such codes and blocks.
std::optional<BlockType> super_block_type(const Storage& storage) {
  if (storage.super_block != kSuperBlock) return std::nullopt;
  if (storage.has_block_palette() && storage.block_palette == quant::BlockPalette::kIq4Nl && storage.group_size == 32)
    return BlockType::kIQ4_XS;
  if (storage.blocks() && storage.bits == 3 && storage.group_size == 16 && !storage.zero_points)
    return BlockType::kQ3_K;
  return std::nullopt;
}

std::string nearest_blocks(unsigned bits) {
  return bits <= 4 ? "format: int4-block, group_size: 32"
                   : fmt::format("format: uniform, bits: {}, group_size: 32", bits);
}

/// The code of the scale's integer 0, and the number of codes.
struct Range {
  int zero = 8, codes = 16;
};
Range range_of(BlockType type) {
  const model::CodeBlockType* const row = model::find_code_block_type(type);
  return {static_cast<int>(row->zero), static_cast<int>(row->codes)};
}

/// The type of blocks with such a palette and such scales.
std::optional<BlockType> block_palette_type(const Storage& storage) {
  using quant::BlockPalette;
  using quant::ScaleType;
  if (storage.block_palette == BlockPalette::kIq4Nl && storage.scale_type == ScaleType::kFloat16)
    return BlockType::kIQ4_NL;
  if (storage.block_palette == BlockPalette::kFp4 && storage.scale_type == ScaleType::kE8M0) return BlockType::kMXFP4;
  return std::nullopt;
}

bool holds(BlockType type, int least, int most) {
  const Range range = range_of(type);
  return least + range.zero >= 0 && most + range.zero < range.codes;
}

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

GgufFit gguf_fit(const Storage& storage) {
  const std::string nearest = nearest_blocks(storage.bits);
  if (!storage.coded()) return {};
  if (storage.palette()) return {Fit::refused("it has no palettes", nearest), {}};
  if (storage.has_block_palette() && !block_palette_type(storage))
    return {Fit::refused("of palettes that blocks scale it has IQ4_NL's with float16 and MXFP4's with e8m0",
                         "palette: iq4_nl, block_scale: float16, group_size: 32"),
            {}};
  if (const auto type = super_block_type(storage); type && storage.cols % kSuperBlock == 0)
    return {Fit::exact(), *type};
  if (super_block_type(storage) == BlockType::kQ3_K)
    return {Fit::refused(
                fmt::format("rows of {} inputs are no whole number of super-blocks of {}", storage.cols, kSuperBlock),
                nearest),
            {}};
  if (storage.cols % kBlock != 0)
    return {Fit::refused(fmt::format("rows of {} inputs are no whole number of blocks of {}", storage.cols, kBlock),
                         "format: float16"),
            {}};
  if (storage.group_size % kBlock != 0)
    return {Fit::refused(fmt::format("its scales are for {} inputs, not {}", kBlock, storage.group_size),
                         storage.has_block_palette() ? "group_size: 32" : nearest),
            {}};
  if (storage.has_block_palette()) return {Fit::exact(), *block_palette_type(storage)};
  const int codes = 1 << storage.bits;
  const int least = storage.zero_points ? 1 - codes : -codes / 2,
            most = storage.zero_points ? codes - 1 : codes / 2 - 1;
  for (const BlockType type : {BlockType::kQ4_0, BlockType::kQ5_0, BlockType::kQ8_0})
    if (holds(type, least, most)) return {Fit::exact(), type};
  return {Fit::refused(fmt::format("codes less zero points may be from {} to {}, and its widest integers have 8 bits",
                                   least, most),
                       nearest + ", zero_point: false"),
          {}};
}

BlockType gguf_float_type(std::span<const ExportPart* const> parts) {
  std::optional<DType> common;
  for (const ExportPart* const part : parts) {
    const DType dtype = part->coded ? DType::kF16 : part->dtype;
    common = common.value_or(dtype) == dtype ? dtype : DType::kF32;
  }
  return common == DType::kF16 ? BlockType::kF16 : common == DType::kBF16 ? BlockType::kBF16 : BlockType::kF32;
}

namespace {

void encode_mxfp4_row(const quant::QuantizedTensor& tensor, std::size_t row, std::span<std::byte> blocks,
                      BlockScratch& scratch) {
  const quant::TensorSpec& spec = tensor.spec();
  const auto exponents = tensor.find("block_scale")->bytes;
  const std::size_t groups = spec.blocks(), group = spec.group_size == 0 ? spec.cols : spec.group_size;
  scratch.codes.resize(spec.cols);
  scratch.exponents.resize(spec.cols / kBlock);
  quant::unpack_codes(tensor.code_row(row), spec.bits, scratch.codes);
  for (std::uint8_t& code : scratch.codes) code = quant::e2m1_codes()[code];
  for (std::size_t b = 0; b < scratch.exponents.size(); ++b)
    scratch.exponents[b] = static_cast<std::uint8_t>(exponents[row * groups + b * kBlock / group]);
  model::encode_mxfp4_blocks(scratch.codes, scratch.exponents, blocks);
}

/// How many times 2^-24 a float16 is: a whole number.
constexpr double kUnit = 0x1p-24;
std::int64_t units_of(std::uint16_t bits) {
  return static_cast<std::int64_t>(static_cast<double>(f16_to_f32(bits)) / kUnit);
}

/// The step of a super-block's scales, and how many times it each of them is.
std::uint16_t split_scales(std::span<const std::uint16_t> scales, std::span<std::int8_t> multiples) {
  std::int64_t step = 0, least = 0, most = 0;
  for (const std::uint16_t bits : scales) {
    const std::int64_t units = units_of(bits);
    step = std::gcd(step, units);
    least = std::min(least, units);
    most = std::max(most, units);
  }
  if (step == 0) step = 1;
  if (most == -kLeastMultiple * step) step = -step;  // that many times the step is none, the same with a minus is
  const auto is_multiple = [step](std::int64_t units) {
    return units / step >= kLeastMultiple && units / step <= kMostMultiple;
  };
  const float value = static_cast<float>(static_cast<double>(step) * kUnit);
  NIBBLE_REQUIRE(is_multiple(least) && is_multiple(most) && round_to_f16(value) == value, FormatError,
                 "scales from {} to {} are no multiples from {} to {} of one float16",
                 static_cast<double>(least) * kUnit, static_cast<double>(most) * kUnit, kLeastMultiple, kMostMultiple);
  for (std::size_t b = 0; b < scales.size(); ++b) multiples[b] = static_cast<std::int8_t>(units_of(scales[b]) / step);
  return f32_to_f16(value);
}

void encode_super_block_row(const quant::QuantizedTensor& tensor, std::size_t row, BlockType type,
                            std::span<std::byte> blocks, BlockScratch& scratch) {
  const quant::TensorSpec& spec = tensor.spec();
  const std::size_t groups = spec.blocks(), together = kSuperBlock / spec.group_size;
  scratch.codes.resize(spec.cols);
  scratch.scales.resize(groups);
  scratch.multiples.resize(groups);
  quant::unpack_codes(tensor.code_row(row), spec.bits, scratch.codes);
  std::memcpy(scratch.scales.data(), tensor.find("block_scale")->bytes.data() + 2 * row * groups, 2 * groups);
  std::vector<std::uint16_t> steps(groups / together);
  for (std::size_t b = 0; b < steps.size(); ++b) {
    try {
      steps[b] = split_scales(std::span<const std::uint16_t>(scratch.scales).subspan(b * together, together),
                              std::span(scratch.multiples).subspan(b * together, together));
    } catch (const FormatError& error) {
      throw FormatError(
          fmt::format("{}.block_scale: row {}, inputs from {}: {}", tensor.name(), row, b * kSuperBlock, error.what()));
    }
  }
  model::encode_super_blocks(type, scratch.codes, scratch.multiples, steps, blocks);
}

}  // namespace

void encode_coded_row(const ExportPart& part, std::size_t row, BlockType type, std::span<std::byte> blocks,
                      BlockScratch& scratch) {
  const quant::QuantizedTensor& tensor = part.coded->tensor();
  const quant::TensorSpec& spec = tensor.spec();
  const quant::TensorPart& scales = *tensor.find("block_scale");
  if (type == BlockType::kMXFP4) return encode_mxfp4_row(tensor, row, blocks, scratch);
  if (type == BlockType::kQ3_K || type == BlockType::kIQ4_XS)
    return encode_super_block_row(tensor, row, type, blocks, scratch);
  const quant::TensorPart* const zeros = tensor.find("block_zero");
  const std::size_t groups = spec.blocks(), group = spec.group_size == 0 ? spec.cols : spec.group_size;
  const std::size_t count = spec.cols / kBlock;
  scratch.codes.resize(spec.cols);
  scratch.scales.resize(count);
  quant::unpack_codes(tensor.code_row(row), spec.bits, scratch.codes);
  const Range range = range_of(type);
  for (std::size_t b = 0; b < count; ++b) {
    const std::size_t at = row * groups + b * kBlock / group;
    scratch.scales[b] = load<std::uint16_t>(scales.bytes.data() + 2 * at);
    if (type == BlockType::kIQ4_NL) continue;  // whose codes are the palette's
    const int own = zeros == nullptr ? 1 << (spec.bits - 1) : load<std::uint8_t>(zeros->bytes.data() + at);
    NIBBLE_REQUIRE(own < 1 << spec.bits, FormatError, "{}.block_zero: expected below {}, got {} in row {}",
                   tensor.name(), 1 << spec.bits, own, row);
    const int shift = range.zero - own;
    if (shift == 0) continue;
    for (std::uint8_t& code : std::span(scratch.codes).subspan(b * kBlock, kBlock))
      code = static_cast<std::uint8_t>(code + shift);
  }
  model::encode_blocks(type, scratch.codes, scratch.scales, {}, blocks);
}

}  // namespace nibble::exporting
