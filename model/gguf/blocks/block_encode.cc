#include "model/gguf/blocks/block_encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "model/gguf/blocks/super_blocks.h"

namespace nibble::model {
namespace {

constexpr std::size_t kWeights = 32, kHalf = 16;

constexpr std::array<CodeBlockType, 6> kCodeTypes{{{BlockType::kQ4_0, 16, 8, false},
                                                   {BlockType::kQ4_1, 16, 0, true},
                                                   {BlockType::kQ5_0, 32, 16, false},
                                                   {BlockType::kQ5_1, 32, 0, true},
                                                   {BlockType::kQ8_0, 256, 128, false},
                                                   {BlockType::kIQ4_NL, 16, 0, false}}};

void check_codes(std::string_view name, std::span<const std::uint8_t> codes, unsigned limit) {
  const auto bad = std::find_if(codes.begin(), codes.end(), [limit](std::uint8_t code) { return code >= limit; });
  NIBBLE_REQUIRE(bad == codes.end(), InvalidArgument, "encoding {}: code {} at {}; expected 0 to {}", name,
                 static_cast<unsigned>(*bad), bad - codes.begin(), limit - 1);
}

void check_sizes(const BlockTypeInfo& type, std::size_t codes, std::size_t scales, std::size_t bytes) {
  NIBBLE_REQUIRE(codes % kWeights == 0, InvalidArgument, "encoding {}: {} codes are no whole number of blocks of {}",
                 type.name, codes, kWeights);
  const std::size_t blocks = codes / kWeights;
  NIBBLE_REQUIRE(scales == blocks, InvalidArgument, "encoding {}: {} blocks with {} scales", type.name, blocks, scales);
  NIBBLE_REQUIRE(bytes == blocks * type.bytes, InvalidArgument, "encoding {}: {} blocks take {} bytes, not {}",
                 type.name, blocks, blocks * type.bytes, bytes);
}

/// Appends to a block.
class Output {
 public:
  explicit Output(std::byte* at) : at_(at) {}

  template <class T>
  void put(T value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }

  /// Bit j of a little-endian word is bit 4 of code j.
  void put_fifth_bits(const std::uint8_t* codes) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < kWeights; ++j) word |= static_cast<std::uint32_t>(codes[j] >> 4 & 1u) << j;
    put(word);
  }

  /// Byte j holds the low 4 bits of code j, and above them those of code j + 16.
  void put_nibbles(const std::uint8_t* codes) {
    for (std::size_t j = 0; j < kHalf; ++j)
      put(static_cast<std::uint8_t>((codes[j] & 15u) | (codes[j + kHalf] & 15u) << 4));
  }

 private:
  std::byte* at_;
};

}  // namespace

const CodeBlockType* find_code_block_type(BlockType type) {
  const auto found =
      std::find_if(kCodeTypes.begin(), kCodeTypes.end(), [type](const CodeBlockType& row) { return row.type == type; });
  return found == kCodeTypes.end() ? nullptr : &*found;
}

void encode_blocks(BlockType type, std::span<const std::uint8_t> codes, std::span<const std::uint16_t> scales,
                   std::span<const std::uint16_t> minimums, std::span<std::byte> blocks) {
  const BlockTypeInfo& info = block_type_info(type);
  const CodeBlockType* const row = find_code_block_type(type);
  NIBBLE_REQUIRE(row != nullptr, InvalidArgument,
                 "encoding {}: blocks can be written from codes and scales as Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and IQ4_NL",
                 info.name);
  check_sizes(info, codes.size(), scales.size(), blocks.size());
  NIBBLE_REQUIRE(minimums.size() == (row->has_minimum ? scales.size() : 0), InvalidArgument,
                 "encoding {}: {} blocks with {} minimums", info.name, scales.size(), minimums.size());
  check_codes(info.name, codes, row->codes);
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const std::uint8_t* const block = codes.data() + b * kWeights;
    Output output(blocks.data() + b * info.bytes);
    output.put(scales[b]);
    if (row->has_minimum) output.put(minimums[b]);
    if (row->codes == 256) {
      for (std::size_t j = 0; j < kWeights; ++j) output.put(static_cast<std::uint8_t>(block[j] ^ 0x80u));
    } else {
      if (row->codes == 32) output.put_fifth_bits(block);
      output.put_nibbles(block);
    }
  }
}

void encode_mxfp4_blocks(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> exponents,
                         std::span<std::byte> blocks) {
  const BlockTypeInfo& info = block_type_info(BlockType::kMXFP4);
  check_sizes(info, codes.size(), exponents.size(), blocks.size());
  check_codes(info.name, codes, 16);
  for (std::size_t b = 0; b < exponents.size(); ++b) {
    Output output(blocks.data() + b * info.bytes);
    output.put(exponents[b]);
    output.put_nibbles(codes.data() + b * kWeights);
  }
}

namespace {

void put_q3_k(const std::uint8_t* codes, const std::int8_t* multiples, std::uint16_t step, std::byte* at) {
  Q3_K block{};
  block.d = step;
  for (std::size_t j = 0; j < kSuperBlock; ++j) {
    const std::size_t s = j / 32, l = j % 32, shift = 2 * (s % 4);
    block.codes[s / 4 * 32 + l] = static_cast<std::uint8_t>(block.codes[s / 4 * 32 + l] | (codes[j] & 3u) << shift);
    block.third[l] = static_cast<std::uint8_t>(block.third[l] | (codes[j] >> 2 & 1u) << s);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    const auto scale = static_cast<unsigned>(multiples[i] - kLeastMultiple);
    std::uint8_t &low = block.scales[i % 8], &high = block.scales[8 + i % 4];
    low = static_cast<std::uint8_t>(low | (scale & 15u) << (i < 8 ? 0 : 4));
    high = static_cast<std::uint8_t>(high | scale >> 4 << (2 * (i / 4)));
  }
  std::memcpy(at, &block, sizeof block);
}

void put_iq4_xs(const std::uint8_t* codes, const std::int8_t* multiples, std::uint16_t step, std::byte* at) {
  Iq4Xs block{};
  block.d = step;
  for (std::size_t s = 0; s < 8; ++s) {
    const auto scale = static_cast<unsigned>(multiples[s] - kLeastMultiple);
    std::uint8_t& low = block.scales_low[s / 2];
    low = static_cast<std::uint8_t>(low | (scale & 15u) << (s % 2 * 4));
    block.scales_high = static_cast<std::uint16_t>(block.scales_high | scale >> 4 << (2 * s));
    for (std::size_t j = 0; j < kHalf; ++j)
      block.codes[kHalf * s + j] = static_cast<std::uint8_t>(codes[32 * s + j] | codes[32 * s + j + kHalf] << 4);
  }
  std::memcpy(at, &block, sizeof block);
}

}  // namespace

void encode_super_blocks(BlockType type, std::span<const std::uint8_t> codes, std::span<const std::int8_t> multiples,
                         std::span<const std::uint16_t> steps, std::span<std::byte> blocks) {
  const BlockTypeInfo& info = block_type_info(type);
  NIBBLE_REQUIRE(type == BlockType::kQ3_K || type == BlockType::kIQ4_XS, InvalidArgument,
                 "encoding {}: of super-blocks Q3_K and IQ4_XS can be written", info.name);
  const bool q3 = type == BlockType::kQ3_K;
  const std::size_t scales = q3 ? 16 : 8;
  NIBBLE_REQUIRE(codes.size() == steps.size() * kSuperBlock && multiples.size() == steps.size() * scales &&
                     blocks.size() == steps.size() * info.bytes,
                 InvalidArgument, "encoding {}: {} steps, {} multiples and {} codes for {} bytes", info.name,
                 steps.size(), multiples.size(), codes.size(), blocks.size());
  check_codes(info.name, codes, q3 ? 8 : 16);
  const auto bad =
      std::find_if(multiples.begin(), multiples.end(), [](int k) { return k < kLeastMultiple || k > kMostMultiple; });
  NIBBLE_REQUIRE(bad == multiples.end(), InvalidArgument, "encoding {}: multiple {} at {}; expected {} to {}",
                 info.name, static_cast<int>(*bad), bad - multiples.begin(), kLeastMultiple, kMostMultiple);
  for (std::size_t b = 0; b < steps.size(); ++b)
    (q3 ? put_q3_k : put_iq4_xs)(codes.data() + b * kSuperBlock, multiples.data() + b * scales, steps[b],
                                 blocks.data() + b * info.bytes);
}

void encode_floats(BlockType type, std::span<const float> values, std::span<std::byte> blocks) {
  const BlockTypeInfo& info = block_type_info(type);
  NIBBLE_REQUIRE(type == BlockType::kF32 || type == BlockType::kF16 || type == BlockType::kBF16, InvalidArgument,
                 "encoding {}: expected F32, F16 or BF16", info.name);
  NIBBLE_REQUIRE(blocks.size() == values.size() * info.bytes, InvalidArgument,
                 "encoding {}: {} values take {} bytes, not {}", info.name, values.size(), values.size() * info.bytes,
                 blocks.size());
  if (type == BlockType::kF32) {
    if (!values.empty()) std::memcpy(blocks.data(), values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = type == BlockType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    const float back = type == BlockType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    NIBBLE_REQUIRE(std::bit_cast<std::uint32_t>(back) == std::bit_cast<std::uint32_t>(values[i]), InvalidArgument,
                   "encoding {}: value {} at {} would become {}", info.name, values[i], i, back);
    std::memcpy(blocks.data() + 2 * i, &bits, 2);
  }
}

}  // namespace nibble::model
