#include "model/gguf/blocks/block_types.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/guarded.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

std::vector<float> decode(const BlockTypeInfo& type, std::string_view blocks) {
  std::vector<float> values(blocks.size() / type.bytes * type.weights);
  type.decode(reinterpret_cast<const std::byte*>(blocks.data()), blocks.size() / type.bytes, values.data());
  return values;
}

/// Every NaN as one: which of two operands' NaN a sum keeps is up to the machine's operand order.
std::vector<float> one_nan(std::vector<float> values) {
  for (float& value : values)
    if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  return values;
}

/// tests/data/gguf/NAME.bin: blocks (random, and with the scales that go wrong first), then what another decoder, the
/// NumPy one of the `gguf` package, makes of them (make_block_vectors.py there).
class DecodedTypes : public testing::TestWithParam<const char*> {};

TEST_P(DecodedTypes, GiveTheBitsOfAnotherDecoder) {
  const BlockTypeInfo type = find_block_type(std::string_view(GetParam())).value();
  const std::string file = test::read_file(test::source_path(fmt::format("tests/data/gguf/{}.bin", type.name)));
  const std::size_t pair = type.bytes + type.weights * sizeof(float), count = file.size() / pair;
  ASSERT_EQ(file.size() % pair, 0u);
  ASSERT_GE(count, 13u);
  std::vector<float> expected(count * type.weights);
  std::memcpy(expected.data(), file.data() + count * type.bytes, expected.size() * sizeof(float));
  const std::string blocks = file.substr(0, count * type.bytes);
  EXPECT_TRUE(test::same_bits(one_nan(decode(type, blocks)), one_nan(expected)));
}

TEST_P(DecodedTypes, ReadAndWriteNothingBeyondTheirBlocksAtAnyAlignment) {
  const BlockTypeInfo type = find_block_type(std::string_view(GetParam())).value();
  Random random(7);
  for (const std::size_t count : {1u, 3u}) {
    std::vector<std::byte> bytes(count * type.bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    test::Guarded<std::byte> blocks{std::span<const std::byte>(bytes)};
    test::Guarded<float> values(count * type.weights);
    type.decode(blocks.data(), count, values.data());
    std::vector<float> again(count * type.weights);
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
    type.decode(shifted.data() + 1, count, again.data());
    EXPECT_TRUE(test::same_bits(values.values(), again));
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, DecodedTypes,
                         testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K",
                                         "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4",
                                         "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
                         [](const auto& name) { return std::string(name.param); });

TEST(BlockTypes, OfPlainNumbersAreTheNumbers) {
  const float floats[]{1.5f, -0.0f, std::numeric_limits<float>::infinity(), 1e-42f};
  const std::string_view f32(reinterpret_cast<const char*>(floats), sizeof floats);
  EXPECT_TRUE(test::same_bits(decode(block_type_info(BlockType::kF32), f32), floats));

  const double doubles[]{1.5, -0.0, 0.1, 1e-42};  // the nearest floats
  const float rounded[]{1.5f, -0.0f, 0.1f, 1e-42f};
  const std::string_view f64(reinterpret_cast<const char*>(doubles), sizeof doubles);
  EXPECT_TRUE(test::same_bits(decode(block_type_info(BlockType::kF64), f64), rounded));
}

TEST(BlockTypes, Q8KIsAFloatScaleTimesCodes) {  // no other decoder to ask: it is llama.cpp's type for activations
  std::string block(292, '\x55');               // the sums at the end are not looked at
  const float d = -0.375f;
  std::memcpy(block.data(), &d, 4);
  std::vector<float> expected;
  for (int j = 0; j < 256; ++j) {
    block[static_cast<std::size_t>(4 + j)] = static_cast<char>(j - 128);
    expected.push_back(-0.375f * static_cast<float>(j - 128));
  }
  EXPECT_TRUE(test::same_bits(decode(block_type_info(BlockType::kQ8_K), block), expected));
}

// From the table in ggml's own documentation of the format.
TEST(BlockTypes, HaveTheSizesOfTheFormat) {
  const auto sizes = [](std::string_view name) {
    const BlockTypeInfo row = find_block_type(name).value();
    return std::array<std::size_t, 3>{static_cast<std::uint32_t>(row.type), row.weights, row.bytes};
  };
  using Sizes = std::array<std::size_t, 3>;
  EXPECT_EQ(sizes("Q8_1"), (Sizes{9, 32, 40}));
  EXPECT_EQ(sizes("IQ2_XXS"), (Sizes{16, 256, 66}));
  EXPECT_EQ(sizes("IQ2_XS"), (Sizes{17, 256, 74}));
  EXPECT_EQ(sizes("IQ3_XXS"), (Sizes{18, 256, 98}));
  EXPECT_EQ(sizes("IQ1_S"), (Sizes{19, 256, 50}));
  EXPECT_EQ(sizes("IQ3_S"), (Sizes{21, 256, 110}));
  EXPECT_EQ(sizes("IQ2_S"), (Sizes{22, 256, 82}));
  EXPECT_EQ(sizes("IQ1_M"), (Sizes{29, 256, 56}));
  EXPECT_EQ(sizes("I64"), (Sizes{27, 1, 8}));
  EXPECT_EQ(sizes("Q1_0"), (Sizes{41, 128, 18}));
  for (std::size_t i = 1; i < block_types().size(); ++i)
    EXPECT_LT(block_types()[i - 1].type, block_types()[i].type) << "in order, none twice";
  for (const BlockTypeInfo& row : block_types()) {
    EXPECT_EQ(&block_type_info(row.type), &row);
    EXPECT_EQ(find_block_type(row.name)->type, row.type);
    EXPECT_EQ(withdrawn_block_type(static_cast<std::uint32_t>(row.type)), "");
  }
}

TEST(BlockTypes, WithoutADecoderAreRefusedByName) {
  check_decodable(block_type_info(BlockType::kQ4_K), "tensor 'x'");
  EXPECT_TRUE(test::throws_with<FormatError>(
      [] { check_decodable(block_type_info(BlockType::kQ8_1), "tensor 'x' of 'm.gguf'"); }, "tensor 'x' of 'm.gguf'",
      "stored as Q8_1, which is not decoded", "Q4_K", "Hint: "));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([] { block_type_info(static_cast<BlockType>(4)); }, "number 4"));
  EXPECT_EQ(find_block_type(1234u), std::nullopt);
  EXPECT_EQ(find_block_type("Q9_K"), std::nullopt);
  EXPECT_EQ(withdrawn_block_type(36), "IQ4_NL_4_4");
}

}  // namespace
}  // namespace nibble::model
