#include "model/checkpoint/narrow_config.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/error.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

std::optional<NarrowConfig> parse(const std::string& quantization) {
  return parse_narrow_config(R"({"quantization_config": )" + quantization + "}", "config.json");
}

template <class... Words>
testing::AssertionResult refuses(const std::string& quantization, Words... words) {
  return test::throws_with<FormatError>([&] { parse(quantization); }, "config.json: quantization_config", words...);
}

using Block = std::array<std::size_t, 2>;

TEST(NarrowConfig, IsEmptyForFloatCheckpointsAndOurOwn) {
  EXPECT_FALSE(parse_narrow_config("{}", "config.json"));
  EXPECT_FALSE(parse("null"));
  EXPECT_FALSE(parse(R"({"quant_method": "nibble", "version": 1})"));
}

TEST(NarrowConfig, OfFp8SaysWhatSharesAScale) {
  const auto fine =
      parse(R"({"quant_method": "fp8", "weight_block_size": [64, 96], "activation_scheme": "dynamic", "fmt": "e4m3"})");
  ASSERT_TRUE(fine);
  EXPECT_EQ(fine->method, "fp8");
  EXPECT_EQ(fine->scale_block, (Block{64, 96}));
  EXPECT_EQ(parse(R"({"quant_method": "fp8", "weight_block_size": null})")->scale_block, (Block{128, 128}));
  EXPECT_EQ(parse(R"({"quant_method": "fbgemm_fp8"})")->method, "fbgemm_fp8");
  EXPECT_EQ(parse(R"({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})")->method, "mxfp4");
}

TEST(NarrowConfig, RefusesBlocksThatAreNoSizes) {
  for (const char* block : {"128", "[128]", "[0, 128]", "[128, -1]", "[1.5, 2]", "[1099511627777, 1]", "\"128\""})
    EXPECT_TRUE(refuses(std::string(R"({"quant_method": "fp8", "weight_block_size": )") + block + "}",
                        "weight_block_size", "expected [rows, columns]"))
        << block;
}

std::string compressed(const std::string& format, const std::string& weights, const std::string& more = "") {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format + R"(", "config_groups": {"group_0":
    {"targets": ["Linear"], "weights": )" +
         weights + R"(, "input_activations": {"num_bits": 8}}}, "ignore": ["lm_head"])" + more + "}";
}

constexpr const char* kFloat8 = R"({"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true})";

TEST(NarrowConfig, OfCompressedTensorsIsReadForFloats) {
  EXPECT_EQ(parse(compressed("float-quantized", kFloat8))->method, "compressed-tensors");
  EXPECT_TRUE(parse(compressed("naive-quantized", kFloat8, R"(, "sparsity_config": {"format": "dense"})")));
  EXPECT_EQ(parse(compressed("float-quantized", R"({"num_bits": 8, "type": "float", "block_structure": [32, 64]})"))
                ->scale_block,
            (Block{32, 64}));
}

TEST(NarrowConfig, OfCompressedTensorsIsRefusedForTheRest) {
  EXPECT_TRUE(refuses(compressed("pack-quantized", kFloat8), "\"pack-quantized\"", "expected \"float-quantized\"",
                      "quantize the float checkpoint"));
  EXPECT_TRUE(refuses(compressed("naive-quantized", R"({"num_bits": 8, "type": "int"})"), "'group_0'", "got int of 8"));
  EXPECT_TRUE(refuses(compressed("float-quantized", R"({"num_bits": 4, "type": "float"})"), "got float of 4 bits"));
  EXPECT_TRUE(refuses(compressed("float-quantized", kFloat8, R"(, "sparsity_config": {"format": "sparse-24-bitmask"})"),
                      "sparsity_config", "sparse-24-bitmask"));
  EXPECT_TRUE(
      refuses(compressed("float-quantized", kFloat8, R"(, "transform_config": {"R1": {}})"), "transform_config"));
}

TEST(NarrowConfig, RefusesOtherMethodsByName) {
  for (const char* method : {"gptq", "awq", "bitsandbytes", "FP8", ""})
    EXPECT_TRUE(refuses(std::string(R"({"quant_method": ")") + method + "\"}", std::string("got \"") + method + "\"",
                        "\"mxfp4\"", "quantize the float checkpoint"))
        << method;
  EXPECT_TRUE(refuses("{}", "quant_method"));
  EXPECT_TRUE(refuses("7", "object"));
}

}  // namespace
}  // namespace nibble::model
