#include "model/gguf/blocks/block_encode.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::throws_with;

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

/// 0, 1, …, 15, 15, …, 1, 0
std::vector<std::uint8_t> mountain() {
  std::vector<std::uint8_t> codes;
  for (std::uint8_t u = 0; u < 16; ++u) codes.push_back(u);
  for (std::uint8_t u = 16; u-- > 0;) codes.push_back(u);
  return codes;
}

TEST(EncodedBlocks, HaveTheBytesOfTheFormat) {
  const std::uint16_t scale = 0x3000, minimum = 0xBC00;  // 0.125, -1
  const auto bytes_of = [&](BlockType type, bool with_minimum) {
    std::vector<std::byte> block(block_type_info(type).bytes);
    encode_blocks(type, mountain(), {&scale, 1}, {&minimum, with_minimum ? 1u : 0u}, block);
    return hex(block);
  };
  EXPECT_EQ(bytes_of(BlockType::kQ4_0, false), "0030f0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_EQ(bytes_of(BlockType::kQ4_1, true), "003000bcf0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_EQ(bytes_of(BlockType::kIQ4_NL, false), "0030f0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_EQ(bytes_of(BlockType::kQ5_0, false), "003000000000f0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_EQ(bytes_of(BlockType::kQ5_1, true), "003000bc00000000f0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_EQ(bytes_of(BlockType::kQ8_0, false),
            "0030808182838485868788898a8b8c8d8e8f8f8e8d8c8b8a898887868584838281" + std::string("80"));
}

// By the definition, in double: products of a code of 8 bits, 6 bits and a float16 are exact there and in float.
TEST(EncodedSuperBlocks, DecodeToWhatCodesAndMultiplesMean) {
  static constexpr int kIq4[16]{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  constexpr std::size_t kBlocks = 40;
  constexpr std::uint64_t kSeed = 12;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (const BlockType type : {BlockType::kQ3_K, BlockType::kIQ4_XS}) {
    const bool q3 = type == BlockType::kQ3_K;
    const std::size_t block = q3 ? 16 : 32;
    const BlockTypeInfo& info = block_type_info(type);
    SCOPED_TRACE(info.name);
    std::vector<std::uint8_t> codes(256 * kBlocks);
    for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(q3 ? 8 : 16));
    std::vector<std::int8_t> multiples(codes.size() / block);
    for (auto& k : multiples) k = static_cast<std::int8_t>(static_cast<int>(random.below(64)) - 32);
    std::vector<std::uint16_t> steps(kBlocks);
    for (auto& step : steps) step = f32_to_f16(static_cast<float>(random.normal() * 0.02));
    std::vector<std::byte> blocks(kBlocks * info.bytes);
    encode_super_blocks(type, codes, multiples, steps, blocks);
    std::vector<float> values(codes.size());
    info.decode(blocks.data(), kBlocks, values.data());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const int q = q3 ? static_cast<int>(codes[i]) - 4 : kIq4[codes[i]];
      const double expected = q * (multiples[i / block] * static_cast<double>(f16_to_f32(steps[i / 256])));
      ASSERT_EQ(static_cast<double>(values[i]), static_cast<double>(static_cast<float>(expected))) << i;
    }
    const auto refused = [&](std::uint8_t code, std::int8_t multiple, std::size_t bytes) {
      std::vector<std::uint8_t> some(256, code);
      std::vector<std::int8_t> scales(256 / block, multiple);
      std::vector<std::byte> block_bytes(bytes);
      return testing::AssertionResult(throws_with<InvalidArgument>(
          [&] {
            encode_super_blocks(type, some, scales, {steps.data(), 1}, block_bytes);
          },
          info.name));
    };
    EXPECT_TRUE(refused(q3 ? 8 : 16, 0, info.bytes));
    EXPECT_TRUE(refused(0, 32, info.bytes));
    EXPECT_TRUE(refused(0, -33, info.bytes));
    EXPECT_TRUE(refused(0, 0, info.bytes + 1));
  }
  EXPECT_TRUE(throws_with<InvalidArgument>([] { encode_super_blocks(BlockType::kQ4_K, {}, {}, {}, {}); }, "Q4_K"));
}

class CodeTypes : public testing::TestWithParam<BlockType> {};

// Each value by the definition, in double: products of an 8-bit code and an 11-bit scale are exact in float, sums with
// a minimum are rounded once. So the bits are equal.
TEST_P(CodeTypes, DecodeToWhatTheCodesMean) {
  const CodeBlockType* const type = find_code_block_type(GetParam());
  ASSERT_NE(type, nullptr);
  static constexpr int kIq4[16]{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  constexpr std::size_t kBlocks = 50;
  Random random(11);
  std::vector<std::uint8_t> codes(32 * kBlocks);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(type->codes));
  std::vector<std::uint16_t> scales(kBlocks), minimums(type->has_minimum ? kBlocks : 0);
  for (auto& scale : scales) scale = f32_to_f16(static_cast<float>(random.normal() * 0.02));
  for (auto& minimum : minimums) minimum = f32_to_f16(static_cast<float>(random.normal()));

  const BlockTypeInfo& info = block_type_info(type->type);
  std::vector<std::byte> blocks(kBlocks * info.bytes);
  encode_blocks(type->type, codes, scales, minimums, blocks);
  std::vector<float> values(codes.size()), expected(codes.size());
  info.decode(blocks.data(), kBlocks, values.data());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int multiple =
        type->type == BlockType::kIQ4_NL ? kIq4[codes[i]] : static_cast<int>(codes[i]) - static_cast<int>(type->zero);
    const double scale = static_cast<double>(f16_to_f32(scales[i / 32]));
    const double minimum = type->has_minimum ? static_cast<double>(f16_to_f32(minimums[i / 32])) : 0.0;
    expected[i] = static_cast<float>(multiple * scale);
    if (type->has_minimum) expected[i] = static_cast<float>(multiple * scale + minimum);
  }
  for (float& value : values)
    if (value == 0.0f) value = 0.0f;  // 0 times a negative scale is -0 there and 0 times anything 0 here
  for (float& value : expected)
    if (value == 0.0f) value = 0.0f;
  EXPECT_TRUE(test::same_bits(values, expected));
}

TEST_P(CodeTypes, RefuseWhatDoesNotFit) {
  const CodeBlockType& type = *find_code_block_type(GetParam());
  const BlockTypeInfo& info = block_type_info(type.type);
  std::vector<std::uint8_t> codes(64);
  std::vector<std::uint16_t> scales(2), minimums(type.has_minimum ? 2 : 0), wrong(type.has_minimum ? 1 : 2);
  std::vector<std::byte> blocks(2 * info.bytes);
  encode_blocks(type.type, codes, scales, minimums, blocks);
  const auto refuses = [&](auto code, auto scale, auto minimum, auto block, auto... words) {
    return throws_with<InvalidArgument>([&] { encode_blocks(type.type, code, scale, minimum, block); },
                                        std::string("encoding ") + std::string(info.name), words...);
  };
  const std::span all(codes);
  EXPECT_TRUE(refuses(all.first(63), std::span(scales), std::span(minimums), std::span(blocks), "63 codes"));
  EXPECT_TRUE(refuses(all.first(32), std::span(scales), std::span(minimums), std::span(blocks), "1 blocks with 2"));
  EXPECT_TRUE(refuses(all, std::span(scales), std::span(minimums), std::span(blocks).first(3), "not 3"));
  EXPECT_TRUE(refuses(all, std::span(scales), std::span(wrong), std::span(blocks), "minimums"));
  if (type.codes < 256) {
    codes[33] = static_cast<std::uint8_t>(type.codes);
    EXPECT_TRUE(refuses(all, std::span(scales), std::span(minimums), std::span(blocks), "at 33; expected 0 to"));
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, CodeTypes,
                         testing::Values(BlockType::kQ4_0, BlockType::kQ4_1, BlockType::kQ5_0, BlockType::kQ5_1,
                                         BlockType::kQ8_0, BlockType::kIQ4_NL),
                         [](const auto& type) { return std::string(block_type_info(type.param).name); });

TEST(EncodedBlocks, OfOtherTypesAreRefused) {
  EXPECT_EQ(find_code_block_type(BlockType::kQ4_K), nullptr);
  EXPECT_TRUE(throws_with<InvalidArgument>([] { encode_blocks(BlockType::kQ4_K, {}, {}, {}, {}); }, "encoding Q4_K"));
}

TEST(EncodedBlocks, OfMxfp4AreFourBitFloats) {
  static constexpr double kValues[8]{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const std::uint8_t exponents[]{127, 120, 140};
  Random random(3);
  std::vector<std::uint8_t> codes(96);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(16));
  std::vector<std::byte> blocks(3 * 17);
  encode_mxfp4_blocks(codes, exponents, blocks);
  std::vector<float> values(96), expected(96);
  block_type_info(BlockType::kMXFP4).decode(blocks.data(), 3, values.data());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const double magnitude = std::ldexp(kValues[codes[i] % 8], exponents[i / 32] - 127);
    expected[i] = static_cast<float>(codes[i] >= 8 && magnitude != 0.0 ? -magnitude : magnitude);
  }
  EXPECT_TRUE(test::same_bits(values, expected));
  codes[5] = 16;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { encode_mxfp4_blocks(codes, exponents, blocks); }, "code 16 at 5"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { encode_mxfp4_blocks(codes, {exponents, 2}, blocks); }, "2 scales"));
}

TEST(EncodedFloats, AreExactOrRefused) {
  const float values[]{1.0f, -0.0f, 0.5f, -1.5f};
  for (const BlockType type : {BlockType::kF32, BlockType::kF16, BlockType::kBF16}) {
    const BlockTypeInfo& info = block_type_info(type);
    std::vector<std::byte> bytes(4 * info.bytes);
    encode_floats(type, values, bytes);
    std::vector<float> back(4);
    info.decode(bytes.data(), 4, back.data());
    EXPECT_TRUE(test::same_bits(back, values)) << info.name;
  }
  const float fine[]{1.0f, 1.0009765625f};  // 1 + 2^-10: the next F16 after 1, no BF16
  std::vector<std::byte> bytes(4);
  encode_floats(BlockType::kF16, fine, bytes);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { encode_floats(BlockType::kBF16, fine, bytes); },
                                           "encoding BF16: value 1.0009766 at 1 would become 1"));
  const float large[]{70000.0f, 1.0f};
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { encode_floats(BlockType::kF16, large, bytes); }, "70000 at 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { encode_floats(BlockType::kF32, fine, bytes); }, "take 8 bytes"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { encode_floats(BlockType::kQ8_0, fine, bytes); }, "F32, F16 or BF16"));
}

}  // namespace
}  // namespace nibble::model
